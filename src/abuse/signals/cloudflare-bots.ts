/** The signal of Cloudflare's bot management. */
import { checkOptions } from "../../base/options.ts";
import { type RequestSignal, SIGNAL, type SignalResult } from "../signals.ts";
import { type BotScoreOptions, scoreReader } from "./bot-score.ts";

const VERIFIED: SignalResult = { bot: "verified" };

/**
 * Reads `request.cf.botManagement` on Workers. A verified bot is `"verified"`, a score from 1 to 29 `"likely"` and one from
 * 30 to 99 `"unlikely"`, unless `likelyBelow` is set. Clients can't set the score.
 */
export function cloudflareBots(options: BotScoreOptions = {}): RequestSignal {
  checkOptions("cloudflareBots", options, ["likelyBelow"]);
  const resultOfScore = scoreReader(options);
  return {
    [SIGNAL]({ extra }) {
      const bots = member(extra, "botManagement");
      return member(bots, "verifiedBot") === true ? VERIFIED : resultOfScore(member(bots, "score"));
    },
  };
}

/** A member of any value, if it is an object. */
function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
