/** Decisions in spans of the OpenTelemetry SDK (O2): attributes of the active span, and spans of remote decisions. */
import { context, SpanKind, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { Redis } from "ioredis";
import { createLimiter, memoryStore, type Store } from "sluice";
import { rateLimit } from "sluice/fetch";
import { createObserver, type DecisionEvent } from "sluice/observe";
import { type OtelSpansOptions, otelSpans } from "sluice/otel";
import { redisRateLimiter, redisStore } from "sluice/redis";
import { defineRules } from "sluice/rules";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type RedisServer, startRedis } from "../../test/servers/redis-server.js";

const exporter = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
let server: RedisServer;
let redis: Redis;
let prefix = 0;

beforeAll(async () => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(provider);
  server = await startRedis();
  redis = new Redis(server.port);
});

beforeEach(() => exporter.reset());

afterAll(async () => {
  redis.disconnect();
  await server.stop();
  trace.disable();
  context.disable();
});

/** Runs something in a span of a server, as its instrumentation does, and returns that span. */
async function inServerSpan(name: string, work: () => unknown): Promise<ReadableSpan> {
  const tracer = trace.getTracer("server");
  await tracer.startActiveSpan(name, { kind: SpanKind.SERVER }, async (span) => {
    await work();
    span.end();
  });
  return spansNamed(name)[0] as ReadableSpan;
}

const spansNamed = (name: string) => exporter.getFinishedSpans().filter((span) => span.name === name);
const millis = ([seconds, nanos]: readonly [number, number]) => seconds * 1000 + nanos / 1e6;

/** A middleware whose rule allows one request. */
function limitedApp(store: Store, options?: OtelSpansOptions) {
  const observer = createObserver({ secret: "a secret of sixteen characters" });
  const events: DecisionEvent[] = [];
  observer.on((event) => {
    if (event.type === "decision") events.push(event);
  });
  otelSpans(observer, options);
  const rules = defineRules(
    { rules: [{ name: "search", match: "/search", limits: { ip: "1/h log" } }], fallback: "unlimited" },
    { store, prefix: `spans-${prefix++}` },
  );
  const limited = rateLimit({ rules, observer, identity: { trustedProxies: 1, header: "x-client" } });
  const handler = limited(() => new Response("ok"));
  const send = () =>
    handler(new Request("http://localhost/search?canary", { headers: { "x-client": "203.0.113.77" } }));
  return { send, events };
}

const ATTRIBUTES = {
  "sluice.rule": "search",
  "sluice.policy": "search.ip",
  "sluice.outcome": "allowed",
  "sluice.source": "store",
  "sluice.remaining": 0,
  "sluice.key_tag": expect.stringMatching(/^[0-9a-f]{8}$/),
};

describe("otelSpans", () => {
  it.each([
    ["memory", () => memoryStore()],
    ["Redis", () => redisStore(redis)],
  ])("adds the decision to the active span of each request, on %s", async (_, createStore) => {
    const { send, events } = limitedApp(createStore());
    // Both at once: each decision has to find its own span.
    const [first, second] = await Promise.all([inServerSpan("GET 1", send), inServerSpan("GET 2", send)]);
    expect(first.attributes).toEqual(ATTRIBUTES);
    expect(second.attributes).toEqual({
      ...ATTRIBUTES,
      "sluice.outcome": "denied",
      "sluice.retry_after_ms": expect.any(Number),
    });
    expect(second.attributes["sluice.retry_after_ms"]).toBeGreaterThan(3_590_000);
    expect(first.attributes["sluice.key_tag"]).toBe(events[0]?.tag());
    expect(exporter.getFinishedSpans()).toHaveLength(2);
    const exported = exporter.getFinishedSpans().map(({ attributes, name, events }) => ({ attributes, name, events }));
    expect(JSON.stringify(exported)).not.toMatch(/canary|203\.0\.113/);
  });

  it("creates one internal span per remote decision, below the span of the request", async () => {
    const { send, events } = limitedApp(redisStore(redis), { spans: true });
    const parent = await inServerSpan("GET", send);
    const [span, ...others] = spansNamed("sluice consume") as [ReadableSpan];
    expect(others).toEqual([]);
    expect(span.kind).toBe(SpanKind.INTERNAL);
    expect(span.instrumentationScope).toMatchObject({ name: "sluice", version: expect.stringMatching(/^\d+\./) });
    expect(span.parentSpanContext?.spanId).toBe(parent.spanContext().spanId);
    expect(span.attributes).toEqual(ATTRIBUTES);
    const [event] = events as [DecisionEvent];
    expect(event.durationMs).toBeGreaterThan(0);
    expect(millis(span.duration)).toBeCloseTo(event.durationMs as number, 1);
    expect(millis(span.endTime)).toBeCloseTo(event.time, 0);
    // The clock of the parent is finer than a millisecond.
    expect(millis(span.startTime)).toBeGreaterThan(millis(parent.startTime) - 2);
    expect(millis(span.endTime)).toBeLessThan(millis(parent.endTime) + 2);
  });

  it("creates spans for limiters outside of middleware", async () => {
    const observer = createObserver();
    otelSpans(observer, { spans: true, tracerProvider: provider });
    const policy = { capacity: 1, tokensPerSecond: 0.001, name: "outside" };
    const limiter = redisRateLimiter(redis, policy, { observer });
    const parent = await inServerSpan("job", async () => {
      for (let i = 0; i < 3; i++) await limiter.consume("canary");
    });
    // The third denial is repeated from the cache, and waits for nothing.
    expect(spansNamed("sluice consume").map(({ attributes }) => attributes["sluice.outcome"])).toEqual([
      "allowed",
      "denied",
    ]);
    expect(parent.attributes).toMatchObject({ "sluice.rule": "outside", "sluice.source": "cache" });
  });

  it("creates no span for decisions in memory, and changes none without an active one", async () => {
    const { send } = limitedApp(memoryStore(), { spans: true });
    await inServerSpan("GET", send);
    await send();
    const observer = createObserver();
    otelSpans(observer, { spans: true });
    await createLimiter({ policy: "1/s", observer }).consume("canary");
    expect(exporter.getFinishedSpans().map(({ name }) => name)).toEqual(["GET"]);
  });

  it("rejects invalid options with a sentence", () => {
    const observer = createObserver();
    expect(() => otelSpans({} as never)).toThrow("observer must be made by createObserver()");
    expect(() => otelSpans(observer, { tracerProvider: {} as never })).toThrow("tracerProvider must be");
    expect(() => otelSpans(observer, { spans: "yes" as never })).toThrow("spans must be true or false");
    expect(() => otelSpans(observer, { span: true } as never)).toThrow('"span" is not an option');
  });
});
