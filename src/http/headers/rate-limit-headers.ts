/** Turns a decision into RateLimit header fields, in the syntax of one or several drafts. */

import { optionError, SluiceError } from "../../base/errors.ts";
import { checkOptions } from "../../base/options.ts";
import type { Decision } from "../../core/decision.ts";
import { writeDraft8 } from "./draft-8.ts";
import type { FieldStyle, HeaderContext, HeaderFields, WriteFields } from "./field-writer.ts";
import { writeDraft6, writeDraft7, writeKnown, writeLegacy } from "./older-drafts.ts";
import { checkPolicies, type Policies } from "./policies.ts";

/** The syntax of the fields. `draft-8` is also the syntax of drafts 9 to 11; `legacy` is `X-RateLimit-*`. */
export type HeaderMode = "draft-8" | "draft-7" | "draft-6" | "legacy";

/** How RateLimit header fields are written. */
export interface HeaderOptions {
  /** One syntax or several. Draft-8 goes with `legacy` only, since the drafts use the same names. Default: `draft-8`. */
  mode?: HeaderMode | readonly HeaderMode[];
  /** Draft-8: whether every charged policy is listed, or only the limiting one. Default: `"all"`. */
  report?: "all" | "closest";
  /** Draft-8: the unit of the cost, such as `content-bytes`. Default: `requests`, which is not sent. */
  unit?: string;
  /** Draft-8: returns a pseudonym of the key in base64, sent as `pk`; see `partitionKey(secret)`. Default: not sent. */
  partitionKey?: (key: string) => string;
  /** `legacy`: whether `X-RateLimit-Reset` is a Unix time in seconds, or the number of seconds left. Default: `"epoch"`. */
  resetFormat?: "epoch" | "delta";
}

/**
 * Returns the RateLimit header fields of a decision, allowed or denied. The result is empty if the numbers are unknown:
 * an invented `remaining: 0` would stop well-behaved clients. `legacy` also writes the numbers that are known of others.
 */
export function rateLimitHeaders(
  decision: Decision,
  policies: Policies,
  options: HeaderOptions & HeaderContext = {},
): HeaderFields {
  const { key, keys, now, ...rest } = options;
  if (typeof decision?.allowed !== "boolean") {
    throw optionError("invalid-option", "decision", "a decision: await limiter.consume(key) first", decision);
  }
  checkPolicies(policies);
  return headerWriter(rest)(decision, policies, {
    ...(key === undefined ? {} : { key }),
    ...(keys === undefined ? {} : { keys }),
    ...(now === undefined ? {} : { now }),
  });
}

/** Writes the fields of one response. `policies` is `undefined` if the limiter does not report them. */
export type WriteHeaders = (
  decision: Decision,
  policies: Policies | undefined,
  context?: HeaderContext,
) => HeaderFields;

/** Validates header options, and returns the function that writes the fields. `warn` reports policies left out. */
export function headerWriter(options: HeaderOptions = {}, warn: (message: string) => void = () => {}): WriteHeaders {
  if (typeof options !== "object" || options === null) {
    const modes = Object.keys(WRITERS).join('", "');
    const expected = `"${modes}", a list of these, { mode } with further options, or false for no fields`;
    throw optionError("invalid-option", "headers", expected, options);
  }
  checkOptions("headers", options, ["mode", "report", "unit", "partitionKey", "resetFormat"]);
  const modes = checkModes(options.mode ?? "draft-8");
  const { report = "all", unit, partitionKey, resetFormat = "epoch" } = options;
  checkOneOf("report", report, ["all", "closest"]);
  checkOneOf("resetFormat", resetFormat, ["epoch", "delta"]);
  if (unit !== undefined && (typeof unit !== "string" || !/^[ -~]{1,64}$/.test(unit))) {
    throw optionError("invalid-option", "unit", "1 to 64 printable ASCII characters", unit);
  }
  if (partitionKey !== undefined && typeof partitionKey !== "function") {
    throw optionError("invalid-option", "partitionKey", "a function, such as partitionKey(secret)", partitionKey);
  }
  const style: FieldStyle = {
    closestOnly: report === "closest",
    resetIsDelta: resetFormat === "delta",
    unit,
    partitionKey,
    warn,
  };
  const isLegacy = modes.includes("legacy");
  const [first, ...more] = modes.map((mode) => WRITERS[mode]) as [WriteFields, ...WriteFields[]];
  return (decision, policies, context = NO_CONTEXT) => {
    if (!hasNumbers(decision)) return isLegacy && !isUnknown(decision) ? writeKnown(decision, style, context) : {};
    const fields = first(decision, policies, style, context);
    for (const write of more) Object.assign(fields, write(decision, policies, style, context));
    return fields;
  };
}

const NO_CONTEXT: HeaderContext = {};

const WRITERS: Readonly<Record<HeaderMode, WriteFields>> = {
  "draft-8": writeDraft8,
  "draft-7": writeDraft7,
  "draft-6": writeDraft6,
  legacy: writeLegacy,
};

/** Whether a decision was made without the store, so that its numbers mean nothing. */
function isUnknown(decision: Decision): boolean {
  return Boolean(decision.degraded || decision.unknown || (!decision.allowed && decision.unavailable));
}

/** Whether the numbers of a decision are known. A third-party limiter may return `allowed` and little else. */
function hasNumbers(decision: Decision): boolean {
  if (isUnknown(decision)) return false;
  const { policy, limit, remaining, resetAfterMs, nextAfterMs } = decision;
  // The sum is finite only if all of them are.
  return typeof policy === "string" && limit + remaining + resetAfterMs + nextAfterMs < Infinity && remaining >= 0;
}

function checkModes(given: HeaderMode | readonly HeaderMode[]): HeaderMode[] {
  const modes = typeof given === "string" ? [given] : given;
  if (!Array.isArray(modes) || modes.length === 0) {
    throw optionError("invalid-option", "headers", "a mode, a list of modes, or false", given);
  }
  for (const mode of modes) checkOneOf("headers", mode, Object.keys(WRITERS));
  const chosen = [...new Set<HeaderMode>(modes)];
  if (chosen.includes("draft-8") && chosen.some((mode) => mode === "draft-7" || mode === "draft-6")) {
    const message =
      "headers can't combine draft-8 with draft-7 or draft-6, because they use the same field names. Keep one of them.";
    const expected = "draft-8 alone or with legacy, or a list without draft-8";
    throw new SluiceError("invalid-option", message, { option: "headers", expected, received: modes.join(", ") });
  }
  return chosen;
}

function checkOneOf(option: string, value: unknown, allowed: readonly string[]): void {
  if (typeof value === "string" && allowed.includes(value)) return;
  throw optionError("invalid-option", option, `one of ${allowed.join(", ")}`, value);
}
