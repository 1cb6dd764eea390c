/** Cases about how `idempotent` captures responses: what it stores, and when the response is sent. */
import type { IdempotencyStore, StoredResponse } from "../../idempotency/idempotency-store.ts";
import { memoryIdempotencyStore } from "../../idempotency/memory-store.ts";
import { check, checkEqual } from "../check.ts";
import { type MiddlewareCase, slow, streamOf } from "./case.ts";
import type { Client } from "./client.ts";
import type { PlainResponse, Planner, RoutePlan } from "./guarded-route.ts";
import { waitingRoom } from "./hold-cases.ts";

const MAX_BYTES = 1000;
/** How long storing a response takes, in ms: longer than a client needs for another request. */
const STORING_MS = 50;

/** A stored response as the routes report it. */
interface Report {
  status: number;
  own?: string;
  /** `null` if the body is missing. */
  body: number[] | null;
}

const OWN = { "X-Own": "yes" };
const RESPONSES: Record<string, () => Partial<PlainResponse>> = {
  text: () => ({ body: "text" }),
  bytes: () => ({ body: new Uint8Array([0, 255, 128]) }),
  stream: () => ({ body: streamOf("a", "", "b") }),
  sized: () => ({ headers: { "Content-Length": "2" }, body: streamOf("a", "b") }),
  empty: () => ({ status: 204, body: "" }),
  unchanged: () => ({ status: 304, body: "" }),
  failed: () => ({ status: 500, body: "failed" }),
  longest: () => ({ body: "x".repeat(MAX_BYTES) }),
};
const LONG = "x".repeat(5 * MAX_BYTES);

/** A route that stores its responses. A request to `/reports` below it returns them. */
function capturing({ kit, limiter }: Planner, name: string, handle: NonNullable<RoutePlan["handle"]>): RoutePlan {
  const reports: Report[] = [];
  const store = recording(kit.idempotencyStore?.() ?? memoryIdempotencyStore(), ({ status, headers, body }) => {
    const own = headers["x-own"];
    reports.push({ status, ...(own === undefined ? {} : { own: String(own) }), body: body && [...body] });
  });
  return {
    idempotency: { store, maxBodyBytes: MAX_BYTES, storedHeaders: ["x-own"] },
    rateLimits: [{ limiter: limiter(slow(999, name)) }],
    handle: (path, ...rest) => (path.endsWith("/reports") ? { body: JSON.stringify(reports) } : handle(path, ...rest)),
  };
}

/** A store that reports each response, and is slow with bodies. */
function recording(store: IdempotencyStore, report: (response: StoredResponse) => void): IdempotencyStore {
  const { deadlineMs, failsPerScope, isLocal } = store;
  return {
    deadlineMs,
    failsPerScope,
    isLocal,
    begin: (claim) => store.begin(claim),
    read: (...args) => store.read(...args),
    renew: (...args) => store.renew(...args),
    release: (...args) => store.release(...args),
    async complete(key, owner, response, ttlMs) {
      // A response without its body is not waited for, and workerd ends a request with its response.
      if (response.body) await new Promise((resolve) => setTimeout(resolve, STORING_MS));
      report(response);
      return store.complete(key, owner, response, ttlMs);
    },
  };
}

/** A request that runs once. */
function keyed(key: string) {
  const headers = { "Content-Type": "application/json", "X-User": "ada", "Idempotency-Key": key };
  return { method: "POST", headers, body: "{}" };
}

/** The responses that a route has stored. */
async function reportsOf({ send }: Client, route: string): Promise<Report[]> {
  return JSON.parse((await send(`/${route}/reports`)).text) as Report[];
}

/** Waits until a route has stored a number of responses. */
async function untilReported(client: Client, route: string, count: number): Promise<Report[]> {
  for (let i = 0; i < 200; i++) {
    const reports = await reportsOf(client, route);
    if (reports.length >= count) return reports;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`${route} never stored ${count} responses`);
}

const bytesOf = (body: PlainResponse["body"]): number[] =>
  typeof body === "string" ? [...new TextEncoder().encode(body)] : body instanceof Uint8Array ? [...body] : [97, 98];

export const captureCases: readonly MiddlewareCase[] = [
  {
    title: "captures a response, and sends its end when it is stored",
    routes: {
      captured: (planner) =>
        capturing(planner, "captured", (path) => {
          const response = RESPONSES[path.split("/")[2] ?? ""]?.() ?? {};
          return { ...response, headers: { ...OWN, ...response.headers } };
        }),
    },
    async drive(client) {
      for (const [name, response] of Object.entries(RESPONSES)) {
        const { status = 200, body = "" } = response();
        const sent = await client.send(`/captured/${name}`, keyed(name));
        checkEqual([sent.status, [...sent.bytes]], [status, bytesOf(body)], name);
        check(status === 304 || sent.header("RateLimit") !== null, `${name} has RateLimit fields`);
        const report = { status, own: "yes", body: bytesOf(body) };
        checkEqual((await reportsOf(client, "captured")).pop(), report, `captured: ${name}`);
      }
    },
  },
  {
    title: "sends a captured stream as it is produced",
    routes: {
      capturedLive: (planner) => {
        const room = waitingRoom();
        return capturing(planner, "captured-live", (path) => {
          if (path.endsWith("/go")) room.open();
          if (!path.includes("/live")) return {};
          const encoder = new TextEncoder();
          const body = new ReadableStream({
            start: (controller) => controller.enqueue(encoder.encode(path.endsWith("/long") ? LONG : "first")),
            async pull(controller) {
              await room.wait();
              controller.enqueue(encoder.encode("last"));
              controller.close();
            },
          });
          // nginx would buffer the response.
          return { headers: { "X-Accel-Buffering": "no" }, body };
        });
      },
    },
    async drive(client) {
      for (const [path, first, count] of [
        ["/capturedLive/live", "first", 0],
        ["/capturedLive/live/long", LONG, 2],
      ] as const) {
        const response = await client.open(path, keyed(`${count}`));
        const reader = (response.body as ReadableStream<Uint8Array>).getReader();
        const decoder = new TextDecoder();
        let text = "";
        while (text.length < first.length) text += decoder.decode((await reader.read()).value, { stream: true });
        checkEqual(text, first, "the first part");
        const before = await untilReported(client, "capturedLive", count);
        checkEqual(before.length, count, "captured before the end");
        if (count > 0) checkEqual(before.pop()?.body, null, "a response that is too long");
        await client.send("/capturedLive/go");
        for (let part = await reader.read(); !part.done; part = await reader.read()) text += decoder.decode(part.value);
        checkEqual(text, `${first}last`, "the whole");
        if (count > 0) continue;
        checkEqual(
          (await reportsOf(client, "capturedLive")).pop()?.body,
          bytesOf("firstlast"),
          "captured after the end",
        );
      }
    },
  },
  {
    title: "sends a response unchanged that is too long to be captured",
    routes: {
      capturedLong: (planner) =>
        capturing(planner, "captured-long", (path) => ({
          body: path.endsWith("/stream") ? streamOf(...new Array<string>(5).fill("x".repeat(MAX_BYTES))) : LONG,
        })),
    },
    async drive(client) {
      for (const [i, path] of ["/capturedLong", "/capturedLong/stream"].entries()) {
        const { status, text } = await client.send(path, keyed(path.replaceAll("/", "-")));
        checkEqual([status, text === LONG], [200, true], path);
        const report = (await untilReported(client, "capturedLong", i + 1)).pop();
        checkEqual([report?.status, report?.body], [200, null], `captured: ${path}`);
      }
    },
  },
];
