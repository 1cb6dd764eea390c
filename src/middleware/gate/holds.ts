/** Holds of requests: settled when the response ends, and renewed while it is open. */

import { optionError, SluiceError } from "../../base/errors.ts";
import { isCost } from "../../core/charge.ts";
import type { Decision } from "../../core/decision.ts";
import { checkActual } from "../../holds/held-charges.ts";
import type { Hold } from "../../holds/hold-options.ts";
import { OpenHolds } from "../../holds/open-holds.ts";
import { runsOnWorkers } from "../../http/identity/presets.ts";
import type { RuleOutcome } from "../../http/request-charges.ts";
import { endHolds } from "./after-disconnect.ts";
import type { OnFinish } from "./gate-result.ts";
import type { RateLimitOptions, RequestDecision, RequestOutcome } from "./options.ts";
import { endingOf } from "./refunds.ts";
import type { Reports } from "./reports.ts";
import type { HandlerArgs } from "./request-reader.ts";

/** The error for `refundIf` beside a hold. */
export function refundedHold(): SluiceError {
  const message =
    "refundIf can't be combined with hold or a concurrency limit. Return 0 from hold.actual for requests that cost nothing.";
  return new SluiceError("invalid-option", message, { option: "refundIf", expected: "hold.actual" });
}

/** The error for holds and refunds in a middleware that ends before the response. */
export function endsTooEarly(option: string): SluiceError {
  const message = `${option} needs the end of the response, which this middleware does not see. Limit the route itself instead.`;
  return new SluiceError("unsupported", message, { option, expected: "a middleware of the route" });
}

/** The holds of one middleware's requests. */
export class RequestHolds<Args extends HandlerArgs> {
  private readonly actual: NonNullable<RateLimitOptions<Args, unknown>["hold"]>["actual"];
  /** Whether amounts are held whose cost only the handler reports. */
  private readonly awaitsCost: boolean;
  private readonly reports: Reports<Args>;
  /** On Workers a timer belongs to one request, and can't renew the holds of others. */
  private readonly open: OpenHolds | undefined = runsOnWorkers() ? undefined : new OpenHolds();

  constructor({ hold }: RateLimitOptions<Args, unknown>, reports: Reports<Args>) {
    this.actual = hold?.actual;
    this.awaitsCost = hold !== undefined && hold.actual === undefined;
    this.reports = reports;
  }

  /**
   * Adds `settle` to the decision, for the handler, and returns a function to call with the outcome of the request.
   * `undefined` if nothing is held.
   */
  onFinish(args: Args, decision: Decision): OnFinish | undefined {
    const { hold } = decision as RequestDecision;
    if (!decision.allowed || !hold) return undefined;
    let reported: number | undefined;
    const settle = (actual: number): void => {
      reported = checkActual(actual);
    };
    Object.assign(decision, { settle });
    this.open?.add(hold);
    const stopRenewing = (): void => this.open?.delete(hold);
    const end = (outcome: RequestOutcome): Promise<void> => {
      stopRenewing();
      return this.settle(args, hold, reported, outcome);
    };
    return endHolds(decision, { end, stopRenewing, awaitsCost: this.awaitsCost, hasTimers: this.open !== undefined });
  }

  /** The same for charges of rules, which may be refunded besides. */
  onRulesFinish(args: Args, rules: RuleOutcome, decision: Decision): OnFinish | undefined {
    const finish = rules.begin(decision, this.open);
    if (!finish) return undefined;
    // With onStoreError: "throw". Settlements are retried in the background.
    const failed = (error: unknown): void => this.reports.callbackFailed("hold.settle", error, args);
    const end = (outcome: RequestOutcome): Promise<void> => finish(endingOf(outcome)).catch(failed);
    if (!rules.isOpen) return end;
    return endHolds(decision, {
      end,
      endLeases: () => void rules.endLeases().catch(failed),
      stopRenewing: () => rules.stopRenewing(),
      awaitsCost: rules.awaitsCost,
      hasTimers: this.open !== undefined,
    });
  }

  /** Settles a hold. A failure of `actual` charges the estimate, and is reported. */
  private async settle(args: Args, hold: Hold, reported: number | undefined, outcome: RequestOutcome): Promise<void> {
    const { actual } = this;
    let cost = reported;
    try {
      const returned = cost === undefined && actual ? await actual(outcome, ...args) : cost;
      if (returned !== undefined && !isCost(returned)) {
        const expected = "a function that returns a whole number >= 0, or undefined for the estimate";
        throw optionError("invalid-cost", "hold.actual", expected, returned);
      }
      cost = returned;
    } catch (error) {
      this.reports.callbackFailed("hold.actual", error, args);
    }
    try {
      await hold.settle(cost);
    } catch (error) {
      // With onStoreError: "throw". It is retried in the background.
      this.reports.callbackFailed("hold.settle", error, args);
    }
  }
}
