/** Refunds the charges of a request when it finishes, as `refundIf` requires. */

import { SluiceError } from "../../base/errors.ts";
import type { Decision } from "../../core/decision.ts";
import type { RequestCharges, RuleOutcome } from "../../http/request-charges.ts";
import { isRefundDue, type RequestEnding } from "../../http/request-ending.ts";
import { onSuccess } from "./decisions.ts";
import type { OnFinish } from "./gate-result.ts";
import type { RateLimitOptions, RequestOutcome } from "./options.ts";
import { RefundWatch } from "./refund-watch.ts";
import type { Reports } from "./reports.ts";
import type { HandlerArgs } from "./request-reader.ts";

/** Refunds the charges of one middleware's requests. Never rejects. */
export class Refunds<Args extends HandlerArgs> {
  private readonly refundIf: RateLimitOptions<Args, unknown>["refundIf"];
  private readonly reports: Reports<Args>;
  private readonly watch: RefundWatch<Args>;

  constructor({ refundIf }: RateLimitOptions<Args, unknown>, reports: Reports<Args>) {
    this.refundIf = refundIf;
    this.reports = reports;
    this.watch = new RefundWatch(reports);
  }

  /** A function to call with the outcome of the request; `undefined` if there is nothing to refund. */
  onFinish(args: Args, charges: RequestCharges, decision: Decision): OnFinish | undefined {
    const { refundIf } = this;
    if (refundIf === undefined || !decision.allowed || charges.isFree) return undefined;
    let isFinished = false;
    let isReported = false;
    let isRefunded = false;
    const refund = async (): Promise<void> => {
      if (isRefunded) return;
      isRefunded = true;
      await this.refund(args, charges, decision);
    };
    if (refundIf === "succeeded" || refundIf === "reported") {
      onSuccess(args[0] as object, () => {
        isReported = true;
        // The handler may report after its response, or after the client has left.
        if (isFinished) void refund();
      });
    }
    return async (outcome) => {
      if (isFinished) return;
      isFinished = true;
      try {
        const ending = endingOf(outcome);
        const isDue =
          typeof refundIf === "function" ? await refundIf(outcome, ...args) : isRefundDue(refundIf, ending, isReported);
        if (isDue) await refund();
        if (typeof refundIf !== "function" && refundIf !== "failed") {
          this.watch.count(`The limit "${decision.policy}"`, refundIf, isDue && isWatched(refundIf, isReported), args);
        }
      } catch (error) {
        this.reports.callbackFailed("refundIf", error, args);
      }
    };
  }

  /** The same for charges of rules, which refund themselves: connects the handler's report, and counts refunds. */
  onRulesFinish(args: Args, rules: RuleOutcome, onFinish: OnFinish): OnFinish {
    const { refunding } = rules;
    if (!refunding) return onFinish;
    const { rule, refundIf } = refunding;
    let isReported = false;
    onSuccess(args[0] as object, () => {
      isReported = true;
      rules.succeeded().catch((error) => this.reports.callbackFailed("refundIf", error, args));
    });
    const finish: OnFinish = async (outcome, handler) => {
      await onFinish(outcome, handler);
      const isDue = isRefundDue(refundIf, endingOf(outcome), isReported);
      this.watch.count(`Rule "${rule}"`, refundIf, isDue && isWatched(refundIf, isReported), args);
    };
    return Object.assign(finish, { stopRenewing: onFinish.stopRenewing });
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

/** Whether the watch counts a refund: by status with `"succeeded"`, by a report with `"reported"`. */
function isWatched(refundIf: "succeeded" | "reported", isReported: boolean): boolean {
  return refundIf === "reported" || !isReported;
}

/** How a request ended. */
export function endingOf({ status, error, aborted }: RequestOutcome): RequestEnding {
  // An aborted request often ends in an error as well: a handler that passes its signal on gets an AbortError.
  if (aborted) return "aborted";
  if (error !== undefined) return "failed";
  if (status === undefined) return "aborted";
  if (status >= 400) return "failed";
  return status >= 300 ? "redirected" : "succeeded";
}
