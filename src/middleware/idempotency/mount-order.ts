/** Detects `idempotent` behind `rateLimit`: a retry is charged then, and may be rejected in place of a replay. */
import { decisionOf } from "../gate/decisions.ts";
import type { RequestOutcome } from "../gate/options.ts";

/** Responses of a limiter behind `idempotent`, which records no decision for them. */
const REJECTIONS: readonly unknown[] = [undefined, 429, 503];

/** The position of one `idempotent` among the limiters. */
export class MountOrder<Args> {
  private readonly warn: (message: string, args: Args) => void;
  private isKnown = false;

  constructor(warn: (message: string, args: Args) => void) {
    this.warn = warn;
  }

  /**
   * Returns a function to call at the end of a request that a limiter has counted already. A limiter against floods may be
   * in front, if another one is behind, whose decision replaces that of the first.
   */
  watch(request: object, args: Args): ((outcome: RequestOutcome) => Promise<void>) | undefined {
    const before = this.isKnown ? undefined : decisionOf(request);
    if (!before) return undefined;
    return async ({ status, aborted }) => {
      if (this.isKnown || aborted || REJECTIONS.includes(status)) return;
      this.isKnown = true;
      if (decisionOf(request) !== before) return;
      const message =
        "idempotent runs after rateLimit, so retries are charged and may get a 429 in place of the stored response. Mount idempotent before rateLimit.";
      this.warn(message, args);
    };
  }
}
