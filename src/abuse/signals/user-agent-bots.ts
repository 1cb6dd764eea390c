/** The signal of the User-Agent header. */
import { isbot } from "isbot";
import { BoundedMap } from "../../base/bounded-map.ts";
import { optionError } from "../../base/errors.ts";
import { type RequestSignal, SIGNAL, type SignalResult } from "../signals.ts";

const LIKELY: SignalResult = { bot: "likely" };
const UNLIKELY: SignalResult = { bot: "unlikely" };
/** Characters of the header that are matched. The time of the pattern grows with them. */
const MAX_CHARS = 512;
const MAX_CACHED = 1000;

/**
 * Classifies the User-Agent header with isbot: `"likely"` or `"unlikely"`. A request without the header is likely a bot.
 * Any client can send the header of a browser, so this is only a hint.
 */
export function userAgentBots(...options: readonly never[]): RequestSignal {
  if (options.length > 0) throw optionError("invalid-option", "userAgentBots", "called without options", options[0]);
  const results = new BoundedMap<string, SignalResult>({ maxEntries: MAX_CACHED });
  return {
    [SIGNAL](request) {
      const userAgent = request.header("user-agent")?.slice(0, MAX_CHARS).trim();
      if (!userAgent) return LIKELY;
      let result = results.get(userAgent);
      if (!result) {
        result = isbot(userAgent) ? LIKELY : UNLIKELY;
        results.set(userAgent, result);
      }
      return result;
    },
  };
}
