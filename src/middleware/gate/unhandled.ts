/** Remembers requests that their handler never received, because a gate failed or the client disconnected. */
import { shared } from "../../base/shared-state.ts";

/** Keyed by the first argument of the middleware. */
const unhandled = /* @__PURE__ */ shared("unhandled", () => new WeakSet<object>());

/** Records that the response to a request is not that of its handler. */
export function recordUnhandled(request: object): void {
  unhandled.add(request);
}

/** Whether the response to a request is not that of its handler, so a retry must run it. */
export function isUnhandled(request: object): boolean {
  return unhandled.has(request);
}
