/** Refunds the charges of a request when it finishes, as `refundIf` requires. */
import type { Decision } from "../../core/decision.ts";
import { SluiceError } from "../../core/errors.ts";
import type { RequestCharges, RequestEnding } from "../../http/request-charges.ts";
import type { RateLimitOptions, RequestOutcome } from "./options.ts";
import type { Reports } from "./reports.ts";
import type { HandlerArgs } from "./request-reader.ts";

/** Refunds the charges of one middleware's requests. Never rejects. */
export class Refunds<Args extends HandlerArgs> {
  private readonly refundIf: RateLimitOptions<Args, unknown>["refundIf"];
  private readonly reports: Reports<Args>;

  constructor({ refundIf }: RateLimitOptions<Args, unknown>, reports: Reports<Args>) {
    this.refundIf = refundIf;
    this.reports = reports;
  }

  /** A function to call with the outcome of the request; `undefined` if there is nothing to refund. */
  onFinish(
    args: Args,
    charges: RequestCharges,
    decision: Decision,
  ): ((outcome: RequestOutcome) => Promise<void>) | undefined {
    const { refundIf } = this;
    if (refundIf === undefined || !decision.allowed || charges.isFree) return undefined;
    let isFinished = false;
    return async (outcome) => {
      if (isFinished) return;
      isFinished = true;
      try {
        const isDue =
          typeof refundIf === "function" ? await refundIf(outcome, ...args) : endingOf(outcome) === refundIf;
        if (isDue) await this.refund(args, charges, decision);
      } catch (error) {
        this.reports.callbackFailed("refundIf", error, args);
      }
    };
  }

  /** Refunds all charges of an allowed decision. A failure is emitted as an event. */
  async refund(args: Args, charges: RequestCharges, decision: Decision): Promise<void> {
    try {
      await charges.refund(decision);
    } catch (cause) {
      const message = "refund failed because the store is unavailable. The cost stays charged until it refills.";
      const error =
        cause instanceof SluiceError
          ? cause
          : new SluiceError("store-unavailable", message, { option: "refund", cause });
      const cost = charges.costOf(decision);
      this.reports.emit({ type: "refund-lost", policy: decision.policy, cost, error }, args);
    }
  }
}

/** How a request ended. */
export function endingOf({ status, error, aborted }: RequestOutcome): RequestEnding {
  // An aborted request often ends in an error as well: a handler that passes its signal on gets an AbortError.
  if (aborted) return "aborted";
  if (error !== undefined) return "failed";
  if (status === undefined) return "aborted";
  return status >= 400 ? "failed" : "succeeded";
}
