/** Lets the first of many equal reports through, and then at most one a minute with the number of those since. */

const INTERVAL_MS = 60_000;

/** Counts what happens often and is reported rarely. */
export class ReportThrottle {
  private count = 0;
  private reportedAt: number = Number.NEGATIVE_INFINITY;

  /** Counts `more`. Returns how many to report, or 0 if a report was less than a minute ago. */
  add(now: number, more = 1): number {
    this.count += more;
    // The clock may have stepped back.
    if (now - this.reportedAt < INTERVAL_MS && now >= this.reportedAt) return 0;
    const { count } = this;
    this.count = 0;
    this.reportedAt = now;
    return count;
  }
}
