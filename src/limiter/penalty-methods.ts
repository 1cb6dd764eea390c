/** The methods of a limiter with a penalty policy: strikes and blocks by hand. */
import { checkCost } from "../core/charge.ts";
import type { Decision } from "../core/decision.ts";
import { checkWhole } from "../core/options.ts";
import { type Duration, parseDuration } from "../core/rate.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import { chargeTo, type LimiterPart } from "./limiter-part.ts";

/** A year: a longer block belongs on a deny list. */
const MAX_BLOCK_MS = 31_536_000_000;
/** A key has one block, so its id does not matter. */
const BLOCK = "block";

/** The methods of a penalty. `check` throws if the limiter was disposed of, or a key is invalid. */
export function penaltyMethods(
  part: LimiterPart,
  check: (key: string) => void,
): Required<Pick<RateLimiter, "strike" | "block" | "unblock">> {
  return {
    async strike(key: string, times = 1): Promise<Decision> {
      check(key);
      checkCost(times);
      return part.port.applyOne(chargeTo(part, key, times, "take"));
    },
    async block(key: string, forMs: Duration): Promise<Decision> {
      check(key);
      const ms = checkWhole("forMs", parseDuration("forMs", forMs), 1, MAX_BLOCK_MS);
      return part.port.applyOrThrow({ ...chargeTo(part, key, 1, "hold"), hold: { id: BLOCK, forMs: ms } });
    },
    async unblock(key: string): Promise<boolean> {
      check(key);
      const charge = { ...chargeTo(part, key, 0, "settle"), hold: { id: BLOCK, forMs: 0 } };
      return (await part.port.applyOrThrow(charge)).allowed;
    },
  };
}
