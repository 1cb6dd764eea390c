/** `rateLimit` and `idempotent` for SvelteKit 2 and 3: `handle` hooks. */
import type { RequestEvent } from "@sveltejs/kit";
import { decisionOf, recordDecision, shareDecision } from "./gate/decisions.ts";
import type { Gate } from "./gate/gate.ts";
import type { RateLimitOptions, RequestDecision, RequiredFacts } from "./gate/options.ts";
import { isUnhandled, recordUnhandled } from "./gate/unhandled.ts";
import { type MiddlewareName, rejectWrongFramework } from "./gate/wrong-framework.ts";
import { type CustomResponse, enterOnFetch, type FetchResponder } from "./hosts/fetch.ts";
import { type FetchArgsReader, openFetchGate } from "./hosts/fetch-gate.ts";
import { idempotencyOf, type RequestIdempotency, recordIdempotency } from "./idempotency/current.ts";
import { openFetchIdempotency } from "./idempotency/fetch-idempotency.ts";
import type { IdempotencyOptions } from "./idempotency/options.ts";

/** The arguments that callbacks receive. */
export type SvelteKitArgs = readonly [event: RequestEvent];

/** The options of `rateLimit`. `onLimited` returns a response; RateLimit headers are added, and its status is kept from 400. */
export type SvelteKitRateLimitOptions<F extends string = string> = RateLimitOptions<SvelteKitArgs, CustomResponse, F>;

/** A `handle` hook, as SvelteKit 2 and 3 declare it in different modules. */
export type SvelteKitHandle = (input: {
  event: RequestEvent;
  resolve(event: RequestEvent): Response | Promise<Response>;
}) => Promise<Response>;

/** The options of `idempotent`. */
export type SvelteKitIdempotencyOptions = IdempotencyOptions<SvelteKitArgs>;

const reader: FetchArgsReader<SvelteKitArgs> = {
  request: ([event]) => event.request,
  // Without `__data.json`. Not for other requests: the URL of a remote function is that of a header.
  path: ([{ isDataRequest, url }]) => (isDataRequest ? url.pathname + url.search : undefined),
  peer: ([event]) => addressOf(event),
  extra: ([event]) => (event.platform as { cf?: unknown } | undefined)?.cf,
};

/**
 * Creates a hook that limits all requests of the app: `export const handle = rateLimit({ policy: "100/m" })`. Combine it
 * with others by `sequence`. Pages that are prerendered are not counted.
 */
export function rateLimit<F extends string = never>(
  options: SvelteKitRateLimitOptions<F> & RequiredFacts<F>,
): SvelteKitHandle {
  const gate = openFetchGate<SvelteKitArgs>(options as SvelteKitRateLimitOptions, reader);
  return handleFor(gate, options.onLimited);
}

/**
 * Creates a hook that runs requests with an `Idempotency-Key` once, and replays their responses to retries:
 * `export const handle = sequence(authenticate, idempotent({ store, scope }), rateLimit(options))`.
 */
export function idempotent(options: SvelteKitIdempotencyOptions): SvelteKitHandle {
  return handleFor(openFetchIdempotency<SvelteKitArgs>(options, reader), undefined, "idempotent");
}

function handleFor(
  gate: Gate<SvelteKitArgs>,
  onLimited: FetchResponder<SvelteKitArgs>["onLimited"],
  name?: MiddlewareName,
): SvelteKitHandle {
  return async (input, ...rest: unknown[]) => {
    // The context of Hono has an `event` that throws, so `resolve` is read first.
    if (typeof input?.resolve !== "function" || typeof input.event?.request?.headers?.get !== "function") {
      return rejectWrongFramework("sveltekit", [input, ...rest], name) as never;
    }
    const { event, resolve } = input;
    if (isPrerendering(event)) return resolve(event);
    const { request } = event;
    readRecords(event, request);
    try {
      return await enterOnFetch(gate, [event], request, {
        async next() {
          // Endpoints and load functions get another event with the same request.
          shareDecision(event, request);
          const state = idempotencyOf(event);
          if (state) recordIdempotency(request, state);
          try {
            return await resolve(event);
          } finally {
            readRecords(event, request);
          }
        },
        fail(error) {
          throw error;
        },
        onLimited,
      });
    } finally {
      if (isUnhandled(event)) recordUnhandled(request);
    }
  };
}

/** Reads what other hooks have recorded: each hook of a `sequence` receives another event with the same request. */
function readRecords(event: RequestEvent, request: Request): void {
  const decision = decisionOf(request);
  if (decision) recordDecision(event, decision);
  if (isUnhandled(request)) recordUnhandled(event);
}

/** The address that the adapter reports; `undefined` if it has none. */
function addressOf(event: RequestEvent): string | undefined {
  try {
    return event.getClientAddress();
  } catch {
    return undefined;
  }
}

/** Whether a page is rendered while the app is built. SvelteKit then has no client to count. */
function isPrerendering(event: RequestEvent): boolean {
  try {
    event.getClientAddress();
    return false;
  } catch (error) {
    return /prerender/i.test(String(error));
  }
}

/**
 * Returns the decision of the last `rateLimit` hook that the request passed; `undefined` if none has counted it. In
 * shadow mode the decision may be a denied one.
 */
export function getRateLimit(event: RequestEvent): RequestDecision | undefined {
  return decisionOf(event.request);
}

/** Returns the key and the attempt of a request that runs under an idempotency key; `undefined` without one. */
export function getIdempotency(event: RequestEvent): RequestIdempotency | undefined {
  return idempotencyOf(event.request);
}
