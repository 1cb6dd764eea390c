/** How requests end, and which endings refund their cost. */

/** How a request ended. A redirect says nothing: many login forms answer wrong passwords with one. */
export type RequestEnding = "failed" | "succeeded" | "redirected" | "aborted";

/**
 * Which requests are refunded: those that `"failed"` (an error, or a status from 400), those that `"succeeded"` (a status
 * below 300, or reported by the handler), or only those that the handler has `"reported"` as succeeded.
 */
export type RefundIf = "failed" | "succeeded" | "reported";

/** Whether a request that ended in this way is refunded. `isReported`: the handler has called `succeeded`. */
export function isRefundDue(refundIf: RefundIf | undefined, ending: RequestEnding, isReported: boolean): boolean {
  if (isReported && (refundIf === "succeeded" || refundIf === "reported")) return true;
  return refundIf === ending;
}
