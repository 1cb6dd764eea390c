/** Mutants of the middleware, each with a bug that real limiters had: the suite has to detect every one. */
import { type Decision, memoryRateLimiter, type RateLimiter } from "sluice";
import { clientIp } from "sluice/http";
import { type NodeHandler, type NodeRateLimitOptions, rateLimit } from "sluice/node";
import { guardedRoutes, middlewareSuite } from "sluice/testing";
import { describe, expect, it } from "vitest";
import { REQUEST_ABUSE } from "../../src/http/request-abuse.ts";
import type { ResponseFields } from "../../src/http/response.ts";
import { listen, nodeKit, nodeListener } from "./mount.ts";

type Limit = (options: NodeRateLimitOptions) => (handler: NodeHandler) => NodeHandler;

/** The middleware with changed options. */
const changed =
  (change: (options: NodeRateLimitOptions) => Partial<NodeRateLimitOptions>): Limit =>
  (options) =>
    // Rules define keys and costs themselves.
    rateLimit(options.rules ? options : { ...options, ...change(options) });

/** The middleware with a key function instead of the IP address. */
const keyed = (key: NonNullable<NodeRateLimitOptions["key"]>): Limit =>
  changed((options) => (options.key || !options.identity ? {} : { key, identity: undefined as never }));

/** The middleware with a broken limiter. */
function deciding(decide: (limiter: RateLimiter, key: string, cost: number) => Promise<Decision>): Limit {
  return changed(({ limiter }) => {
    if (typeof limiter !== "object" || !("peek" in limiter)) return {};
    const own = limiter as RateLimiter;
    return {
      limiter: {
        consume: (key, cost = 1) => decide(own, key, cost),
        refund: (key, cost) => own.refund(key, cost),
        ...(own.getPolicies ? { getPolicies: own.getPolicies.bind(own) } : { getPolicy: own.getPolicy.bind(own) }),
      },
    };
  });
}

/** The middleware with changed response headers. */
const sending =
  (tamper: (name: string, value: string) => string | undefined): Limit =>
  (options) =>
  (handler) => {
    const limited = rateLimit(options)(handler);
    return (request, response) => {
      const { setHeader } = response;
      response.setHeader = (name, value) => {
        const sent = tamper(name, String(value));
        return sent === undefined ? response : setHeader.call(response, name, sent);
      };
      limited(request, response);
    };
  };

/** One middleware per limit, in place of one middleware for all of them. */
const stacked =
  (change: (options: NodeRateLimitOptions, index: number) => Partial<NodeRateLimitOptions> = () => ({})): Limit =>
  (options) =>
  (handler) => {
    const { limits } = options;
    if (!limits) return rateLimit(options)(handler);
    const each = limits.map((limit, i) => rateLimit({ ...options, limits: [limit], ...change(options, i) }));
    return each.reduceRight((inner, wrap) => wrap(inner), handler);
  };

/** The middleware with changed fields of a clearance. */
const clearing =
  (change: (fields: ResponseFields) => ResponseFields | undefined): Limit =>
  ({ abuse, ...options }) => {
    if (!abuse) return rateLimit(options);
    const mount: (typeof abuse)[typeof REQUEST_ABUSE]["mount"] = (middleware) => {
      const mounted = abuse[REQUEST_ABUSE].mount(middleware);
      return Object.assign(Object.create(mounted) as typeof mounted, {
        async enter(args: Parameters<typeof mounted.enter>[0]) {
          const entered = await mounted.enter(args);
          return typeof entered === "object" && "set" in entered && entered.set
            ? { ...entered, set: change(entered.set) }
            : entered;
        },
      });
    };
    return rateLimit({ ...options, abuse: { ...abuse, [REQUEST_ABUSE]: { mount } } });
  };

const mutants: [string, Limit][] = [
  ["limits nothing", () => (handler) => handler],
  ["runs in shadow mode", changed(() => ({ mode: "shadow" }))],
  ["adds no fields", changed(() => ({ headers: false }))],
  ["ignores shadow mode", changed(() => ({ mode: "enforce" }))],
  ["allows requests after errors", changed(() => ({ onError: () => "allow" }))],
  ["skips nothing", changed(() => ({ skip: () => false }))],
  [
    "does not count OPTIONS requests that have the headers of a preflight",
    changed(({ skip }) => ({
      skip: (...args) =>
        ["origin", "access-control-request-method"].every((name) => name in args[0].headers) ||
        (skip?.(...args) ?? false),
    })),
  ],
  ["does not limit preflights", changed(() => ({ preflight: { capacity: 1_000_000, tokensPerSecond: 1_000_000 } }))],
  ["charges preflights to the caller", changed(() => ({ preflight: "charge" }))],
  ["refunds everything", changed(({ refundIf }) => (refundIf ? { refundIf: () => true } : {}))],
  ["refunds nothing", changed(({ refundIf }) => (refundIf ? { refundIf: () => false } : {}))],
  ["rejects requests that it should delay", changed(() => ({ maxDelayMs: 0 }))],
  ["ignores onLimited", changed(({ onLimited: _, ...rest }) => ({ ...rest, onLimited: undefined as never }))],
  ["ignores cost", changed(() => ({ cost: 1 }))],
  [
    "trusts the left end of X-Forwarded-For",
    keyed(
      (request) => `ip:${String(request.headers["x-forwarded-for"] ?? request.socket.remoteAddress).split(",")[0]}`,
    ),
  ],
  ["uses one bucket for all clients", keyed(() => "ip:0.0.0.0")],
  [
    "counts every IPv6 address separately",
    keyed((request) => {
      const peer = request.socket.remoteAddress;
      return `ip:${clientIp({ peer, headers: request.headers }, { trustedProxies: ["127.0.0.1"] })}`;
    }),
  ],
  [
    "peeks, and consumes later",
    deciding(async (limiter, key, cost) => {
      const look = await limiter.peek(key, cost);
      await new Promise((resolve) => setTimeout(resolve, 20));
      if (look.allowed) await limiter.consume(key, cost);
      return look;
    }),
  ],
  [
    "does not delay requests",
    deciding(async (limiter, key, cost) => {
      const { delayMs: _, ...decision } = await limiter.consume(key, cost);
      return decision as Decision;
    }),
  ],
  ["sends Retry-After: 0", sending((name, value) => (name === "Retry-After" ? "0" : value))],
  ["lets caches store a rejection", sending((_, value) => (value === "no-store" ? "public, max-age=60" : value))],
  [
    "sends the wrong content type",
    sending((_, value) => (value === "application/problem+json" ? "application/json" : value)),
  ],
  ["charges several limits one after the other", stacked()],
  ["charges only the first of several limits", changed(({ limits }) => (limits ? { limits: limits.slice(0, 1) } : {}))],
  [
    "refunds only the first of several limits",
    (options) =>
      options.limits && options.refundIf
        ? stacked((_options, i) => (i === 0 ? {} : { refundIf: undefined as never }))(options)
        : rateLimit(options),
  ],
  [
    "charges a limit that does not apply",
    changed(({ limits }) => {
      if (!limits) return {};
      const fallback = memoryRateLimiter({ capacity: 1, tokensPerSecond: "1/d", name: "fallback" });
      return {
        limits: limits.map(({ limiter, ...limit }) => ({
          ...limit,
          limiter: typeof limiter === "function" ? async (...args) => (await limiter(...args)) ?? fallback : limiter,
        })),
      };
    }),
  ],
  [
    "does not record the decision of a request",
    (options) => (handler) => rateLimit(options)((request, response) => handler(Object.create(request), response)),
  ],
  ["sets no clearance", clearing(() => undefined)],
  ["sets no cookie of a clearance", clearing(({ "Set-Cookie": _, ...fields }) => fields)],
  ["lets caches store a clearance", clearing(({ "Cache-Control": _, ...fields }) => fields)],
  ["does not expose its fields to scripts", sending((_, value) => (value.includes("X-Own, ") ? "X-Own" : value))],
];

/** The title of the first case that fails, as a list. */
async function failuresOf(limit: Limit): Promise<string[]> {
  const cases: [string, () => Promise<void>][] = [];
  middlewareSuite(
    "mutant",
    { start: () => listen(nodeListener(guardedRoutes(nodeKit), limit)) },
    { describe: (_, body) => body(), it: (title, body) => void cases.push([title, body]) },
  );
  const [start, ...rest] = cases;
  const stop = rest.pop();
  await start?.[1]();
  try {
    for (const [title, body] of rest) {
      const failed = await body().then(
        () => false,
        () => true,
      );
      if (failed) return [title];
    }
    return [];
  } finally {
    await stop?.[1]();
  }
}

describe("middlewareSuite", () => {
  it("passes for the real middleware", async () => {
    expect(await failuresOf(rateLimit)).toEqual([]);
  });

  it.each(mutants)("detects a middleware that %s", async (_bug, limit) => {
    expect(await failuresOf(limit)).toHaveLength(1);
  });
});
