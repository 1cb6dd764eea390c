/** The app that a middleware is tried in: routes that any server can mount, and what was seen while they were asked. */
import { andThen } from "../../core/maybe-promise.ts";
import type { Policy } from "../../core/policy.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import type { Identity } from "../../http/identity/client-key.ts";
import { createLimiter } from "../../limiter/create-limiter.ts";
import type { RateLimitOptions } from "../../middleware/gate/options.ts";
import type { FailureOptions } from "../../resilience/failure-policy.ts";

/** Options of any server's `rateLimit`. */
export type RouteOptions = RateLimitOptions<
  // biome-ignore lint/suspicious/noExplicitAny: what it is called with is the server's own
  any,
  // biome-ignore lint/suspicious/noExplicitAny: what it answers with is the server's own
  any
>;

/** What a route answers when its guards let a request through. */
export interface PlainAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A place of the app. The server guards it with `rateLimit` for each of `guards`, in order, for every method. */
export interface GuardedRoute {
  /** Such as `/burst`. What is below it, such as `/burst/x`, belongs to it too. */
  readonly path: string;
  readonly guards: readonly RouteOptions[];
  /** Headers that the app sets on the response before the guards see the request, as CORS does. */
  readonly before: Readonly<Record<string, string>>;
  /**
   * The guarded handler: returns the response for a path, or throws, which the app has to let through. `disconnected`
   * resolves when the client disconnects before the response is sent.
   */
  handle(path: string, disconnected?: PromiseLike<unknown>): PlainAnswer | PromiseLike<PlainAnswer>;
}

/** What the suite has to know of a server to make its routes. */
export interface RouteKit {
  /** A header of a request: `call` is what the server's middleware is called with. */
  // biome-ignore lint/suspicious/noExplicitAny: it is the server's own
  header(args: readonly any[], name: string): string | undefined;
  /** How clients are told apart. Default: by `X-Forwarded-For` from this machine. */
  identity?: Identity;
  /** Makes the limiters, on any store. Default: in memory. */
  limiter?(policy: Policy): RateLimiter;
  /** What `onLimited` has to return or do to answer with a text, and with a status if one is given. */
  // biome-ignore lint/suspicious/noExplicitAny: it is the server's own
  answerWith(args: readonly any[], text: string, status?: number): unknown;
}

/** What happened on the server, told at `/seen` as JSON. */
export interface Seen {
  /** How often the handler was reached. */
  handled: number;
  decisions: { allowed: boolean; key: string }[];
  errors: string[];
  events: string[];
}

/** What a case mounts. */
export interface RoutePlan {
  guards: readonly RouteOptions[];
  before?: Record<string, string>;
  handle?(
    path: string,
    disconnected: PromiseLike<unknown> | undefined,
  ): Partial<PlainAnswer> | PromiseLike<Partial<PlainAnswer>>;
}

/** What plans are made with. */
export interface Planner {
  readonly kit: RouteKit;
  limiter(policy: Policy): RateLimiter;
  /** A limiter whose store always fails. */
  broken(failure: FailureOptions): RateLimiter;
}

const LOOPBACK: Identity = { trustedProxies: ["127.0.0.0/8", "::1"] };

/** The routes of all plans, and one that tells what was seen. */
export function mount(plans: Readonly<Record<string, (planner: Planner) => RoutePlan>>, kit: RouteKit): GuardedRoute[] {
  const seen: Record<string, Seen> = {};
  const planner: Planner = {
    kit,
    limiter: kit.limiter ?? ((policy) => createLimiter({ policy })),
    broken: (failure) => createLimiter({ policy: BROKEN, store: brokenStore(), ...failure }),
  };
  const routes = Object.entries(plans).map(([name, plan]): GuardedRoute => {
    const told: Seen = { handled: 0, decisions: [], errors: [], events: [] };
    seen[name] = told;
    const { guards, before = {}, handle } = plan(planner);
    return {
      path: `/${name}`,
      before,
      guards: guards.map((guard) => listening(guard, told, kit.identity ?? LOOPBACK)),
      handle(path, disconnected) {
        told.handled++;
        return andThen(handle?.(path, disconnected) ?? {}, ({ status = 200, headers = {}, body = "ok" }) => {
          return { status, headers: { "Content-Type": "text/plain", ...headers }, body };
        });
      },
    };
  });
  const tell = () => ({ status: 200, headers: { "Content-Type": "application/json" }, body: JSON.stringify(seen) });
  return [...routes, { path: "/seen", guards: [], before: {}, handle: tell }];
}

/** The same options, and somebody who listens. */
function listening(guard: RouteOptions, told: Seen, identity: Identity): RouteOptions {
  return {
    ...(guard.key === undefined ? { identity } : {}),
    ...guard,
    onDecision: ({ key, decision }) => void told.decisions.push({ key, allowed: decision.allowed }),
    onEvent: (event) => void told.events.push(event.type),
    onError(error, ...args) {
      told.errors.push(String((error as Error)?.message ?? error));
      return guard.onError?.(error, ...args);
    },
  };
}

const BROKEN: Policy = { capacity: 2, tokensPerSecond: "1/d", name: "broken" };

function brokenStore() {
  const fail = () => Promise.reject(new Error("the store is down"));
  return { consistency: "exact" as const, apply: fail, reset: fail, inspect: fail, dispose: async () => {} };
}
