/** The scale of bot scores: that of Cloudflare, from 1 (certainly a bot) to 99 (certainly a person). */
import type { SignalResult } from "../signals.ts";

const LIKELY: SignalResult = { bot: "likely" };
const UNLIKELY: SignalResult = { bot: "unlikely" };
/** Scores below this one are likely bots. */
const MIN_UNLIKELY = 30;
const MAX_SCORE = 99;

/** What a score means; `undefined` if it is not on the scale. 0 means that there is no score. */
export function resultOfScore(score: unknown): SignalResult | undefined {
  if (typeof score !== "number" || !Number.isInteger(score) || score < 1 || score > MAX_SCORE) return undefined;
  return score < MIN_UNLIKELY ? LIKELY : UNLIKELY;
}
