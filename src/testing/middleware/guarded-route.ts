/** The app of the middleware suite: routes that any server can mount, and a log of what happened on each of them. */
import { andThen } from "../../base/maybe-promise.ts";
import type { Policy } from "../../core/policy.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import type { Identity } from "../../http/identity/client-key.ts";
import type { IdempotencyStore } from "../../idempotency/idempotency-store.ts";
import { memoryIdempotencyStore } from "../../idempotency/memory-store.ts";
import type { RateLimitOptions, RequestDecision } from "../../middleware/gate/options.ts";
import type { IdempotencyOptions } from "../../middleware/idempotency/options.ts";
import { createLimiter } from "../../remote/create-limiter.ts";
import type { FailureOptions } from "../../remote/failure-options.ts";

/** The options of any server's `rateLimit`. */
export type RouteOptions = RateLimitOptions<
  // biome-ignore lint/suspicious/noExplicitAny: every server passes other arguments
  any,
  // biome-ignore lint/suspicious/noExplicitAny: every server has another response
  any
>;

/** The options of any server's `idempotent`. */
export type RouteIdempotency = IdempotencyOptions<
  // biome-ignore lint/suspicious/noExplicitAny: every server passes other arguments
  any
>;

/** A `ReadableStream` of bytes. Not every project has its type. */
export interface ByteStream {
  /** Returns a reader of the bytes. */
  getReader(): unknown;
}

/** The response of a route's handler. */
export interface PlainResponse {
  /** The status code. */
  readonly status: number;
  /** The headers to set. Only `Set-Cookie` has several values. */
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  /** The body. Send a stream as it is produced. */
  readonly body: string | Uint8Array | ByteStream;
}

/**
 * A route of the app. The server mounts `idempotent` after a parser of JSON bodies, if the route has `idempotency`, and
 * then one `rateLimit` for each of `rateLimits`, in order, for every method. With `isIdempotencyLast`, `idempotent` is behind them.
 */
export interface GuardedRoute {
  /** The path, such as `/burst`. Paths below it, such as `/burst/x`, belong to the route as well. */
  readonly path: string;
  /** The options of each `rateLimit`, outermost first. */
  readonly rateLimits: readonly RouteOptions[];
  /** The options of `idempotent`. Default: it is not mounted. */
  readonly idempotency?: RouteIdempotency;
  /** Whether `idempotent` is mounted behind the limiters, where it does not belong. Default: in front of them. */
  readonly isIdempotencyLast?: boolean;
  /** Headers that the app sets on the response before `rateLimit` runs, as a CORS middleware does. */
  readonly before: Readonly<Record<string, string>>;
  /**
   * The handler: returns the response for a path, or throws an error that the app must not catch. `disconnected` resolves
   * if the client disconnects before the response is sent. `decision` is the result of the server's `getRateLimit`.
   */
  handle(
    path: string,
    disconnected?: PromiseLike<unknown>,
    decision?: RequestDecision,
  ): PlainResponse | PromiseLike<PlainResponse>;
}

/** How the suite reads requests and writes responses of a server. */
export interface RouteKit {
  /** Returns a request header by its lower-case name. `args` are the arguments of the server's middleware. */
  // biome-ignore lint/suspicious/noExplicitAny: every server passes other arguments
  header(args: readonly any[], name: string): string | undefined;
  /** How clients are identified. Default: by `X-Forwarded-For` from loopback addresses. */
  identity?: Identity;
  /** Creates the limiters, on any store. Default: in memory. */
  limiter?(policy: Policy): RateLimiter;
  /** Creates the store of idempotent responses. Default: in memory. */
  idempotencyStore?(): IdempotencyStore;
  /** Sends a body from `onLimited`, with a status if one is given. Its result is returned from `onLimited`. */
  // biome-ignore lint/suspicious/noExplicitAny: every server passes other arguments
  respondWith(args: readonly any[], text: string, status?: number): unknown;
}

/** The log of a route; `/seen` returns the logs of all routes as JSON. */
export interface RouteLog {
  /** How often the handler was called. */
  handled: number;
  decisions: { allowed: boolean; key: string; rule?: string; mode?: string }[];
  errors: string[];
  events: string[];
}

/** A route of one case. */
export interface RoutePlan {
  rateLimits: readonly RouteOptions[];
  /** Mounts `idempotent`. The header `X-User` is the scope. */
  idempotency?: Partial<RouteIdempotency>;
  /** Mounts `idempotent` behind the limiters. */
  isIdempotencyLast?: boolean;
  before?: Record<string, string>;
  handle?(
    path: string,
    disconnected: PromiseLike<unknown> | undefined,
    decision: RequestDecision | undefined,
  ): Partial<PlainResponse> | PromiseLike<Partial<PlainResponse>>;
}

/** Creates the routes of a case. */
export interface Planner {
  readonly kit: RouteKit;
  limiter(policy: Policy): RateLimiter;
  /** A limiter whose store always fails. */
  broken(failure: FailureOptions): RateLimiter;
}

const LOOPBACK: Identity = { trustedProxies: ["127.0.0.0/8", "::1"] };

/** Creates the routes of all plans, and `/seen`. */
export function mount(plans: Readonly<Record<string, (planner: Planner) => RoutePlan>>, kit: RouteKit): GuardedRoute[] {
  const logs: Record<string, RouteLog> = {};
  const planner: Planner = {
    kit,
    limiter: kit.limiter ?? ((policy) => createLimiter({ policy })),
    broken: (failure) => createLimiter({ policy: BROKEN, store: brokenStore(), ...failure }),
  };
  const routes = Object.entries(plans).map(([name, plan]): GuardedRoute => {
    const log: RouteLog = { handled: 0, decisions: [], errors: [], events: [] };
    logs[name] = log;
    const { rateLimits, idempotency, isIdempotencyLast = false, before = {}, handle } = plan(planner);
    return {
      path: `/${name}`,
      before,
      ...(idempotency && { idempotency: idempotencyOf(idempotency, log, kit), isIdempotencyLast }),
      rateLimits: rateLimits.map((options) => logged(options, log, kit.identity ?? LOOPBACK)),
      handle(path, disconnected, decision) {
        log.handled++;
        return andThen(handle?.(path, disconnected, decision) ?? {}, ({ status = 200, headers = {}, body = "ok" }) => {
          return { status, headers: { "Content-Type": "text/plain", ...headers }, body };
        });
      },
    };
  });
  const showLogs = () => ({ status: 200, headers: { "Content-Type": "application/json" }, body: JSON.stringify(logs) });
  return [...routes, { path: "/seen", rateLimits: [], before: {}, handle: showLogs }];
}

function idempotencyOf(options: Partial<RouteIdempotency>, log: RouteLog, kit: RouteKit): RouteIdempotency {
  return {
    store: kit.idempotencyStore?.() ?? memoryIdempotencyStore(),
    scope: (...args) => kit.header(args, "x-user"),
    // Machines that run tests pause for longer than the default.
    deadlineMs: "20s",
    ...options,
    onEvent: (event) => void log.events.push(event.type),
  };
}

/** The options with callbacks that write to the log. */
function logged(options: RouteOptions, log: RouteLog, identity: Identity): RouteOptions {
  return {
    ...(options.key === undefined ? { identity } : {}),
    ...options,
    onDecision: ({ key, decision, rule, mode }) =>
      void log.decisions.push({ key, allowed: decision.allowed, ...(rule && { rule }), ...(mode && { mode }) }),
    onEvent: (event) => void log.events.push(event.type),
    onError(error, ...args) {
      log.errors.push(String((error as Error)?.message ?? error));
      return options.onError?.(error, ...args);
    },
  };
}

const BROKEN: Policy = { capacity: 2, tokensPerSecond: "1/d", name: "broken" };

function brokenStore() {
  const fail = () => Promise.reject(new Error("the store is down"));
  return { consistency: "exact" as const, apply: fail, reset: fail, inspect: fail, dispose: async () => {} };
}
