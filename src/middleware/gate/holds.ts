/** Holds of requests: settled when the response ends, and renewed while it is open. */
import { isCost } from "../../core/charge.ts";
import { monotonicMs } from "../../core/clock.ts";
import type { Decision } from "../../core/decision.ts";
import { optionError } from "../../core/errors.ts";
import { type Hold, type HoldDecision, MAX_HOLD_MS } from "../../core/hold.ts";
import { runsOnWorkers } from "../../http/identity/presets.ts";
import type { RateLimitOptions, RequestDecision, RequestOutcome } from "./options.ts";
import type { Reports } from "./reports.ts";
import type { HandlerArgs } from "./request-reader.ts";

/** Part of its duration after which a hold is renewed: two renewals may fail before it ends. */
const RENEWALS_PER_HOLD = 3;

/** A request whose response has not ended. */
interface OpenHold {
  readonly hold: Hold;
  readonly openedAt: number;
}

/** The holds of one middleware's requests. */
export class RequestHolds<Args extends HandlerArgs> {
  private readonly actual: NonNullable<RateLimitOptions<Args, unknown>["hold"]>["actual"];
  private readonly reports: Reports<Args>;
  private readonly open: Set<OpenHold> = new Set();
  private timer: unknown;
  private renewEveryMs = Number.POSITIVE_INFINITY;

  constructor({ hold }: RateLimitOptions<Args, unknown>, reports: Reports<Args>) {
    this.actual = hold?.actual;
    this.reports = reports;
  }

  /**
   * Adds `settle` to the decision, for the handler, and returns a function to call with the outcome of the request.
   * `undefined` if nothing is held.
   */
  onFinish(args: Args, decision: Decision): ((outcome: RequestOutcome) => Promise<void>) | undefined {
    const { hold } = decision as RequestDecision;
    if (!decision.allowed || !hold) return undefined;
    let reported: number | undefined;
    const settle = (actual: number): void => {
      if (!isCost(actual)) throw optionError("invalid-cost", "actual", "a whole number from 0 to 2147483647", actual);
      reported = actual;
    };
    Object.assign(decision, { settle });
    const held: OpenHold = { hold, openedAt: monotonicMs() };
    this.renewWhileOpen(held, decision as HoldDecision & { allowed: true });
    let isFinished = false;
    return async (outcome) => {
      if (isFinished) return;
      isFinished = true;
      this.open.delete(held);
      if (this.open.size === 0) this.stopTimer();
      await this.settle(args, hold, reported, outcome);
    };
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

  /** One timer renews all holds of open responses. */
  private renewWhileOpen(held: OpenHold, { hold }: HoldDecision & { allowed: true }): void {
    // There a timer belongs to one request, and can't renew the holds of others.
    if (runsOnWorkers()) return;
    this.open.add(held);
    const everyMs = Math.max(1, Math.floor(hold.forMs / RENEWALS_PER_HOLD));
    if (this.timer !== undefined && everyMs >= this.renewEveryMs) return;
    this.stopTimer();
    this.renewEveryMs = everyMs;
    this.timer = setInterval(() => this.renew(), everyMs);
    (this.timer as { unref?(): void }).unref?.();
  }

  private renew(): void {
    const now = monotonicMs();
    for (const held of this.open) {
      // A response whose end was never seen must not hold for ever.
      if (now - held.openedAt > MAX_HOLD_MS) this.open.delete(held);
      // A failed renewal is retried in the background, and `hold-lost` reports one that fails until the end.
      else held.hold.renew().catch(() => {});
    }
  }

  private stopTimer(): void {
    clearInterval(this.timer as ReturnType<typeof setInterval> | undefined);
    this.timer = undefined;
    this.renewEveryMs = Number.POSITIVE_INFINITY;
  }
}
