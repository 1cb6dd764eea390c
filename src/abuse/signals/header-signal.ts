/** The signal of a score that a proxy writes to a header. */
import { optionError } from "../../base/errors.ts";
import { checkOptions } from "../../base/options.ts";
import { isIn, parseAddress, parseRange } from "../../http/identity/address.ts";
import { checkHeader } from "../../http/identity/client-ip.ts";
import { type RequestSignal, SIGNAL } from "../signals.ts";
import { type BotScoreOptions, scoreReader } from "./bot-score.ts";

/** Options of `headerSignal`. */
export interface HeaderSignalOptions extends BotScoreOptions {
  /** The proxies that write the header, or remove it: IP addresses and ranges such as `10.0.0.0/8`. */
  trustedProxies: readonly string[];
}

/**
 * Reads a bot score from a header, only if the socket's peer is a trusted proxy. A score from 1 to 29 is `"likely"`, one
 * from 30 to 99 `"unlikely"`, unless `likelyBelow` is set. Other values are ignored.
 */
export function headerSignal(name: string, options: HeaderSignalOptions): RequestSignal {
  const header = checkHeader("name", name);
  checkOptions("headerSignal", options, ["trustedProxies", "likelyBelow"]);
  const resultOfScore = scoreReader(options);
  const { trustedProxies } = options;
  if (!Array.isArray(trustedProxies) || trustedProxies.length === 0) {
    const expected = 'a list of addresses and ranges such as ["10.0.0.0/8"]';
    throw optionError("invalid-option", "trustedProxies", expected, trustedProxies);
  }
  const ranges = trustedProxies.map((text: unknown) => parseRange("trustedProxies", text));
  return {
    [SIGNAL](request) {
      const peer = parseAddress(request.peer);
      if (!peer || !isIn(ranges, peer)) return undefined;
      const value = request.header(header);
      return value !== undefined && /^[1-9]\d?$/.test(value) ? resultOfScore(Number(value)) : undefined;
    },
  };
}
