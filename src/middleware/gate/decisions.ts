/** Remembers the decision of each request that passed, for `getRateLimit`. */
import { shared } from "../../core/shared-state.ts";
import type { RequestDecision } from "./options.ts";

/** Keyed by the first argument of the middleware, so nothing is added to objects of the application. */
const decisions = /* @__PURE__ */ shared("decisions", () => new WeakMap<object, RequestDecision>());

/** Records the decision of a request that passes. A later middleware replaces it. */
export function recordDecision(request: object, decision: RequestDecision): void {
  decisions.set(request, decision);
}

/** The decision of the last middleware that the request passed; `undefined` if none counted it. */
export function decisionOf(request: object): RequestDecision | undefined {
  return decisions.get(request);
}
