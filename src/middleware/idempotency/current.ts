/** Remembers the key of each request that runs, for `getIdempotency`. */
import { shared } from "../../base/shared-state.ts";

/** The state of a request that runs under an idempotency key. */
export interface RequestIdempotency {
  /** The key that the client sent. */
  readonly key: string;
  /** 1 for the first attempt; 2 or more if an earlier one lost its lease and may have had an effect. */
  readonly attempt: number;
}

/** Keyed by the first argument of the middleware, so nothing is added to objects of the application. */
const requests = /* @__PURE__ */ shared("idempotentRequests", () => new WeakMap<object, RequestIdempotency>());

/** Records the state of a request. */
export function recordIdempotency(request: object, state: RequestIdempotency): void {
  requests.set(request, state);
}

/** The state of a request; `undefined` if it has no key. */
export function idempotencyOf(request: object): RequestIdempotency | undefined {
  return requests.get(request);
}
