/** Validates the options of `rateLimit` when it is called, before the first request. */

import { optionError, SluiceError, show } from "../../base/errors.ts";
import { checkOptions, checkWhole, type OptionHints } from "../../base/options.ts";
import { checkCost } from "../../core/charge.ts";
import { parseHoldMs } from "../../holds/hold-options.ts";
import { checkAbuse } from "./abuse.ts";
import { refundedHold } from "./holds.ts";
import { checkLimits } from "./limits.ts";
import type { RateLimitOptions, RequestHold } from "./options.ts";
import type { HandlerArgs } from "./request-reader.ts";
import { checkRules } from "./rule-charges.ts";

/** The options that say what is charged, of which exactly one is required. */
export const SOURCES = ["policy", "policies", "limiter", "limits", "rules"] as const;
const KNOWN = [
  ...SOURCES,
  "facts",
  "abuse",
  "key",
  "cost",
  "hold",
  "identity",
  "headers",
  "skip",
  "preflight",
  "mode",
  "maxDelayMs",
  "callbackDeadlineMs",
  "onLimited",
  "onDecision",
  "refundIf",
  "onError",
  "onEvent",
  "observer",
];
const FUNCTIONS = ["key", "skip", "onLimited", "onDecision", "onError", "onEvent"] as const;
const MAX_TIMER_MS = 2 ** 31 - 1;

const USE_POLICY = 'Use policy instead, such as policy: "100/m".';
const USE_HEADERS = 'Use headers instead, such as headers: "draft-8".';
/** Options of other rate limiters, and what to use here. */
const REPLACEMENTS: OptionHints = {
  store: "Pass a limiter that uses the store instead: limiter: createLimiter({ policy, store }).",
  max: USE_POLICY,
  limit: USE_POLICY,
  windowMs: USE_POLICY,
  timeWindow: USE_POLICY,
  points: USE_POLICY,
  duration: USE_POLICY,
  keyGenerator: "Use key instead.",
  handler: "Use onLimited instead.",
  message: "Use onLimited instead, which writes the body of rejected requests.",
  statusCode: "Use onLimited instead, which may set the status of rejected requests.",
  standardHeaders: USE_HEADERS,
  legacyHeaders: USE_HEADERS,
  skipSuccessfulRequests: 'Use refundIf: "succeeded" instead.',
  skipFailedRequests: 'Use refundIf: "failed" instead.',
  trustProxy: "Use identity: { trustedProxies } instead.",
};

/** Throws for options that can't work. */
export function checkRateLimitOptions<Args extends HandlerArgs, Own>(options: RateLimitOptions<Args, Own>): void {
  if (typeof options !== "object" || options === null) {
    const message = `rateLimit requires options, such as { policy: "100/m" }, but received ${show(options)}.`;
    throw new SluiceError("invalid-option", message, { option: "rateLimit", expected: "options", received: options });
  }
  if (typeof (options as { consume?: unknown }).consume === "function") {
    const expected = "rateLimit({ limiter, key })";
    const message = `rateLimit takes one object with options, but received a limiter. Write ${expected}.`;
    throw new SluiceError("invalid-option", message, { option: "rateLimit", expected, received: options });
  }
  checkOptions("rateLimit", options, KNOWN, REPLACEMENTS);
  checkSource(options);
  for (const name of FUNCTIONS) {
    const given = options[name];
    if (given !== undefined && typeof given !== "function") {
      throw optionError("invalid-option", name, "a function", given);
    }
  }
  const { cost, hold, mode, maxDelayMs, refundIf, key, identity, limits, onLimited } = options;
  if (hold !== undefined) checkHold(hold, refundIf !== undefined);
  // As in express-rate-limit. The response would be undefined at the first rejected request.
  if (onLimited && onLimited.length > 1) {
    const expected = "onLimited: ({ args, decision }) => …";
    const message = `onLimited is called with one object, not with (request, response). Write ${expected} and read the request from args.`;
    throw new SluiceError("invalid-option", message, { option: "onLimited", expected, received: onLimited });
  }
  if (typeof cost !== "function" && cost !== undefined) checkCost(cost);
  if (limits !== undefined) checkLimits(limits);
  if (options.rules !== undefined) checkRules(options.rules);
  else if (options.facts !== undefined)
    throw optionError("invalid-option", "facts", "left out without rules, which use them");
  if (maxDelayMs !== undefined) checkWhole("maxDelayMs", maxDelayMs, 0, MAX_TIMER_MS);
  if (mode !== undefined && mode !== "enforce" && mode !== "shadow") {
    throw optionError("invalid-option", "mode", '"enforce" or "shadow"', mode);
  }
  const outcomes: unknown[] = ["failed", "succeeded", "reported", undefined];
  if (typeof refundIf !== "function" && !outcomes.includes(refundIf)) {
    throw optionError("invalid-option", "refundIf", '"failed", "succeeded", "reported" or a function', refundIf);
  }
  if (options.abuse !== undefined) checkAbuse(options.abuse);
  // Abuse prevention uses identity for lists and penalties, whatever the key is.
  if (key !== undefined && identity !== undefined && options.abuse === undefined) {
    const message =
      "key and identity can't be combined, because key replaces identity. To use both, call clientKey() of sluice/http inside of key.";
    throw new SluiceError("invalid-option", message, { option: "identity", expected: "key or identity" });
  }
}

function checkHold<Args extends HandlerArgs>(hold: RequestHold<Args>, isRefunded: boolean): void {
  checkOptions("hold", hold, ["estimate", "actual", "forMs"]);
  const { estimate, actual, forMs } = hold;
  if (isRefunded) throw refundedHold();
  if (estimate !== undefined && typeof estimate !== "function") checkWhole("hold.estimate", estimate, 1, 2 ** 31 - 1);
  if (actual !== undefined && typeof actual !== "function") {
    throw optionError("invalid-option", "hold.actual", "a function", actual);
  }
  if (forMs !== undefined) parseHoldMs(forMs);
}

function checkSource<Args extends HandlerArgs, Own>(options: RateLimitOptions<Args, Own>): void {
  const given = SOURCES.filter((name) => options[name] !== undefined);
  if (given.length === 1) return;
  const expected = `exactly one of ${SOURCES.join(", ")}`;
  const received = given.length === 0 ? "none of them" : given.join(" and ");
  const message = `rateLimit requires ${expected}, such as { policy: "100/m" }, but received ${received}.`;
  throw new SluiceError("invalid-option", message, { option: "rateLimit", expected, received });
}
