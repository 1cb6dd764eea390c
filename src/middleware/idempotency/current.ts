/** Remembers the key of each request that runs, for `getIdempotency`. */
import { createObjectField } from "../../base/object-field.ts";
import { shared } from "../../base/shared-state.ts";

/** The state of a request that runs under an idempotency key. */
export interface RequestIdempotency {
  /** The key that the client sent. */
  readonly key: string;
  /** 1 for the first attempt; 2 or more if an earlier one lost its lease and may have had an effect. */
  readonly attempt: number;
}

/** Kept with the first argument of the middleware. */
const requests = /* @__PURE__ */ shared("idempotentRequests", createObjectField<RequestIdempotency>);

/** Records the state of a request. */
export function recordIdempotency(request: object, state: RequestIdempotency): void {
  requests.set(request, state);
}

/** The state of a request; `undefined` if it has no key. */
export function idempotencyOf(request: object): RequestIdempotency | undefined {
  return requests.get(request);
}
