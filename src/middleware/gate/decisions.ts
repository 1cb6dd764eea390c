/** Remembers the decision of each request that passed, for `getRateLimit`. */
import { createObjectField } from "../../base/object-field.ts";
import { shared } from "../../base/shared-state.ts";
import type { RequestDecision } from "./options.ts";

/** Kept with the first argument of the middleware. */
const decisions = /* @__PURE__ */ shared("decisions", createObjectField<RequestDecision>);

/** What to call if the handler reports success, by request. Most applications have none. */
const successes = /* @__PURE__ */ shared("successReports", () => ({
  isUsed: false,
  byRequest: new WeakMap<object, () => void>(),
}));

/** Records the decision of a request that passes. A later middleware replaces it. */
export function recordDecision(request: object, decision: RequestDecision): void {
  decisions.set(request, decision);
}

/** Calls a function if the handler reports success. Those of earlier middleware are called as well. */
export function onSuccess(request: object, report: () => void): void {
  const earlier = successes.byRequest.get(request);
  const both = (): void => {
    earlier?.();
    report();
  };
  successes.byRequest.set(request, earlier ? both : report);
  successes.isUsed = true;
}

/** The decision of the last middleware that the request passed; `undefined` if none counted it. */
export function decisionOf(request: object): RequestDecision | undefined {
  const decision = decisions.get(request);
  if (!decision || !successes.isUsed) return decision;
  const succeeded = successes.byRequest.get(request);
  return succeeded ? withSucceeded(decision, succeeded) : decision;
}

/** Makes the decision of one object that of another: some frameworks pass handlers other objects than middleware. */
export function shareDecision(from: object, to: object): void {
  const decision = decisionOf(from);
  if (decision) recordDecision(to, decision);
  const succeeded = successes.byRequest.get(from);
  if (succeeded) onSuccess(to, succeeded);
}

/** The decision with `succeeded`, which is not enumerable, so that the decision can still be copied and sent. */
function withSucceeded(decision: RequestDecision, succeeded: () => void): RequestDecision {
  // A third-party limiter may return a frozen object.
  const extensible = Object.isExtensible(decision) ? decision : { ...decision };
  return Object.defineProperty(extensible, "succeeded", { value: succeeded, configurable: true });
}
