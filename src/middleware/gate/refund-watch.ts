/** Detects limits on failures that count nothing, because nearly all requests are refunded, or everything, because none is. */
import type { RefundIf } from "../../http/request-ending.ts";
import type { Reports } from "./reports.ts";
import type { HandlerArgs } from "./request-reader.ts";

/** Attempts before nearly all of them being refunded is suspicious. */
const MIN_ATTEMPTS = 20;
const SUSPICIOUS_SHARE = 0.95;
/** Attempts before none of them being reported is suspicious. */
const MIN_UNREPORTED = 100;
const MAX_LIMITS = 1000;

interface Counts {
  attempts: number;
  refunded: number;
  isReported: boolean;
}

/** Counts the refunds of one middleware's limits, and warns once for each. */
export class RefundWatch<Args extends HandlerArgs> {
  private readonly reports: Reports<Args>;
  private readonly counts: Map<string, Counts> = new Map();

  constructor(reports: Reports<Args>) {
    this.reports = reports;
  }

  /** Counts a request that has ended. `subject` is the limit: `Rule "login"`, for example. */
  count(subject: string, refundIf: RefundIf, isRefunded: boolean, args: Args): void {
    let counts = this.counts.get(subject);
    if (!counts) {
      if (this.counts.size >= MAX_LIMITS) return;
      this.counts.set(subject, (counts = { attempts: 0, refunded: 0, isReported: false }));
    }
    if (counts.isReported) return;
    counts.attempts++;
    if (isRefunded) counts.refunded++;
    const { attempts, refunded } = counts;
    const isNearlyAll = attempts >= MIN_ATTEMPTS && refunded >= attempts * SUSPICIOUS_SHARE;
    const isNone = attempts >= MIN_UNREPORTED && refunded === 0;
    if (!(refundIf === "succeeded" ? isNearlyAll : isNone)) return;
    counts.isReported = true;
    const problem =
      refundIf === "succeeded"
        ? 'limits next to nothing, because nearly all requests were refunded by their status. If a failure may have a status below 300, set refundIf: "reported"'
        : `counts every request, because none of the first ${MIN_UNREPORTED} was reported as succeeded. Add the report`;
    const message = `${subject} ${problem}: call getRateLimit(request)?.succeeded?.() in the handler on success.`;
    this.reports.warn(message, args, "SLUICE_REFUNDS");
  }
}
