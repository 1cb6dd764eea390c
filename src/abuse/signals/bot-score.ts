/** The scale of bot scores: that of Cloudflare, from 1 (certainly a bot) to 99 (certainly a person). */
import { checkWhole } from "../../base/options.ts";
import type { SignalResult } from "../signals.ts";

/** Options of signals with a bot score. */
export interface BotScoreOptions {
  /** Scores below this one are `"likely"` bots, a whole number from 2 to 99. Default: 30. */
  likelyBelow?: number;
}

const LIKELY: SignalResult = { bot: "likely" };
const UNLIKELY: SignalResult = { bot: "unlikely" };
const DEFAULT_LIKELY_BELOW = 30;
const MAX_SCORE = 99;

/** Returns what a score means; `undefined` if it is not on the scale. 0 means that there is no score. */
export function scoreReader({ likelyBelow = DEFAULT_LIKELY_BELOW }: BotScoreOptions): ReadScore {
  checkWhole("likelyBelow", likelyBelow, 2, MAX_SCORE);
  return (score) => {
    if (typeof score !== "number" || !Number.isInteger(score) || score < 1 || score > MAX_SCORE) return undefined;
    return score < likelyBelow ? LIKELY : UNLIKELY;
  };
}

type ReadScore = (score: unknown) => SignalResult | undefined;
