/**
 * RateLimit fields as data: a decision in, names and values out. The drafts of draft-ietf-httpapi-ratelimit-headers
 * differ in syntax: 00 to 06, 07, and 08 to 11. The next one is a change of this file alone.
 */
import { wallClockMs } from "../../core/clock.ts";
import type { Decision } from "../../core/decision.ts";
import { optionError } from "../../core/errors.ts";
import { checkOptions } from "../../core/options.ts";
import type { ResolvedPolicy } from "../../core/policy.ts";

/** Header names and values, in the order they are to be sent. */
export type HeaderFields = Record<string, string>;

/** One policy, or all of a combination: `limiter.getPolicies?.() ?? limiter.getPolicy()`. */
export type Policies = ResolvedPolicy | readonly ResolvedPolicy[];

/** The syntax of the fields. Drafts 8 to 11 are the same; `legacy` is `X-RateLimit-*`. */
export type HeaderMode = "draft-8" | "draft-9" | "draft-10" | "draft-11" | "latest" | "draft-7" | "draft-6" | "legacy";

/** How the fields are written. */
export interface HeaderOptions {
  /** One syntax or several. Draft-8 goes with `legacy` only, since the drafts use the same names. Default: `draft-8`. */
  mode?: HeaderMode | readonly HeaderMode[];
  /** Draft-8: every policy of a combination, or only the one that binds. Default: `"all"`. */
  report?: "all" | "closest";
  /** Draft-8: what is counted, such as `content-bytes`. Default: `requests`, which is not sent. */
  unit?: string;
  /** Draft-8: names the client's share of the quota without telling who it is; see `partitionKey`. Default: not sent. */
  partitionKey?: (key: string) => string;
  /** `legacy`: whether `X-RateLimit-Reset` is the second it happens in, or how many are left. Default: `"epoch"`. */
  resetFormat?: "epoch" | "delta";
}

/** What the fields may need to know beside a decision. */
export interface HeaderFacts {
  /** The key that was asked about, for `partitionKey`. */
  key?: string;
  /** Milliseconds since the epoch, for `X-RateLimit-Reset`. Default: now. */
  now?: number;
}

/**
 * The fields of a counted response, allowed or denied. Empty when the figures are not known: a made-up
 * `remaining: 0` would stop polite clients.
 */
export function rateLimitHeaders(
  decision: Decision,
  policies: Policies,
  options: HeaderOptions & HeaderFacts = {},
): HeaderFields {
  const { key, now, ...rest } = options;
  checkPolicies(policies);
  return headerWriter(rest)(decision, policies, {
    ...(key === undefined ? {} : { key }),
    ...(now === undefined ? {} : { now }),
  });
}

/** Writes the fields of one response. Policies are not known of every limiter. */
export type WriteHeaders = (decision: Decision, policies: Policies | undefined, facts?: HeaderFacts) => HeaderFields;

/** Checks how fields are to be written, and makes the function that does. `warn` hears of policies that are left out. */
export function headerWriter(options: HeaderOptions = {}, warn: (message: string) => void = () => {}): WriteHeaders {
  if (typeof options !== "object" || options === null) {
    const modes = Object.keys(SYNTAX).join('", "');
    const expected = `"${modes}", a list of these, { mode } with further options, or false for none`;
    throw optionError("invalid-option", "headers", expected, options);
  }
  checkOptions("headers", options, ["mode", "report", "unit", "partitionKey", "resetFormat"]);
  const modes = checkModes(options.mode ?? "draft-8");
  const { report = "all", unit, partitionKey, resetFormat = "epoch" } = options;
  oneOf("report", report, ["all", "closest"]);
  oneOf("resetFormat", resetFormat, ["epoch", "delta"]);
  if (unit !== undefined && (typeof unit !== "string" || !/^[ -~]{1,64}$/.test(unit))) {
    throw optionError("invalid-option", "unit", "1 to 64 printable ASCII characters", unit);
  }
  if (partitionKey !== undefined && typeof partitionKey !== "function") {
    throw optionError("invalid-option", "partitionKey", "a function, such as partitionKey(secret)", partitionKey);
  }
  const style: Style = { closest: report === "closest", delta: resetFormat === "delta", unit, partitionKey, warn };
  const [first, ...more] = modes.map((mode) => WRITERS[mode]) as [Write, ...Write[]];
  return (decision, policies, facts = NO_FACTS) => {
    if (!isKnown(decision)) return {};
    const fields = first(decision, policies, style, facts);
    for (const write of more) Object.assign(fields, write(decision, policies, style, facts));
    return fields;
  };
}

const NO_FACTS: HeaderFacts = {};

/** Whether the figures are true. Limiters of others may give a verdict and little more. */
function isKnown(decision: Decision): boolean {
  if (decision.degraded || decision.unknown || (!decision.allowed && decision.unavailable)) return false;
  const { policy, limit, remaining, resetAfterMs, nextAfterMs } = decision;
  // The sum is finite and at least 0 if all of them are.
  return typeof policy === "string" && limit + remaining + resetAfterMs + nextAfterMs < Infinity && remaining >= 0;
}

/** Whole seconds for a header: never 0, never a fraction, never sooner than the truth. */
export function seconds(ms: number): number {
  return clamp(Math.max(1, Math.ceil(ms / 1000)));
}

/** One or many as a list. */
export function listOf(policies: Policies): readonly ResolvedPolicy[] {
  return Array.isArray(policies) ? policies : [policies as ResolvedPolicy];
}

/** Whether policies are resolved. Limiters of others may have policies of another shape. */
export function areResolved(policies: Policies): boolean {
  return Array.isArray(policies) ? policies.every(isResolved) : isResolved(policies as ResolvedPolicy);
}

function isResolved(policy: Partial<ResolvedPolicy> | null): boolean {
  return typeof policy?.name === "string" && typeof policy.limit === "number" && typeof policy.windowMs === "number";
}

/** Throws for a policy as it is written, such as `tokenBucket("5/s")`. Not knowing the policies is fine. */
export function checkPolicies(policies: Policies | undefined): void {
  if (policies === undefined || areResolved(policies)) return;
  const expected = "the policies of the limiter: limiter.getPolicies?.() ?? limiter.getPolicy()";
  throw optionError("invalid-option", "policies", expected, policies);
}

type Syntax = "draft-8" | "draft-7" | "draft-6" | "legacy";

interface Style {
  closest: boolean;
  delta: boolean;
  unit: string | undefined;
  partitionKey: ((key: string) => string) | undefined;
  warn(message: string): void;
}

type Write = (decision: Decision, policies: Policies | undefined, style: Style, facts: HeaderFacts) => HeaderFields;

const WRITERS: Record<Syntax, Write> = {
  "draft-8"(decision, policies, style, { key }) {
    const own = style.partitionKey && key !== undefined ? `;pk=:${checkBase64(style.partitionKey(key))}:` : "";
    const parts = style.closest ? undefined : decision.parts;
    return {
      "RateLimit-Policy": policyList(decision, parts ?? [decision], policies, style, own),
      RateLimit: parts ? parts.map((part) => quotaItem(part, own)).join(", ") : quotaItem(decision, own),
    };
  },
  "draft-7"(decision, policies, style) {
    const { limit, remaining, reset } = tightest(decision);
    return { ...oldPolicies(policies, style), RateLimit: `limit=${limit}, remaining=${remaining}, reset=${reset}` };
  },
  "draft-6"(decision, policies, style) {
    const { limit, remaining, reset } = tightest(decision);
    return {
      ...oldPolicies(policies, style),
      "RateLimit-Limit": String(limit),
      "RateLimit-Remaining": String(remaining),
      "RateLimit-Reset": String(reset),
    };
  },
  legacy(decision, _policies, { delta }, { now = wallClockMs() }) {
    const { limit, remaining, reset, resetMs } = tightest(decision);
    return {
      "X-RateLimit-Limit": String(limit),
      "X-RateLimit-Remaining": String(remaining),
      "X-RateLimit-Reset": String(delta ? reset : clamp(Math.ceil((now + resetMs) / 1000))),
    };
  },
};

/** Policies do not change, so that their text is made once. With a partition key it belongs to one client. */
const written = new WeakMap<Policies, Map<string, string>>();

function policyList(
  decision: Decision,
  parts: readonly Decision[],
  policies: Policies | undefined,
  { closest, unit }: Style,
  own: string,
): string {
  // Limiters of others may not know their policies: then their windows are not told.
  if (!policies) return parts.map((part) => policyItem(part.policy, part.limit, undefined, unit) + own).join(", ");
  const list = listOf(policies);
  if (own !== "" || (closest && list.length > 1)) {
    const told = closest ? list.filter(({ name }) => name === decision.policy) : list;
    return told.map(({ name, limit, windowMs }) => policyItem(name, limit, windowMs, unit) + own).join(", ");
  }
  let texts = written.get(policies);
  if (!texts) written.set(policies, (texts = new Map()));
  let text = texts.get(unit ?? "");
  if (text === undefined) {
    text = list.map(({ name, limit, windowMs }) => policyItem(name, limit, windowMs, unit)).join(", ");
    texts.set(unit ?? "", text);
  }
  return text;
}

function policyItem(name: string, limit: number, windowMs: number | undefined, unit: string | undefined): string {
  const what = unit === undefined || unit === "requests" ? "" : `;qu=${text(unit)}`;
  return `${text(name)};q=${clamp(Math.floor(limit))}${what}${windowMs === undefined ? "" : `;w=${seconds(windowMs)}`}`;
}

function quotaItem({ policy, remaining, nextAfterMs }: Decision, own: string): string {
  const until = nextAfterMs > 0 ? `;t=${seconds(nextAfterMs)}` : "";
  return `${text(policy)};r=${clamp(Math.floor(remaining))}${until}${own}`;
}

/** Policies as drafts before 8 list them. They do not change, so that the text is made once. */
const writtenOld = new WeakMap<Policies, string>();

/** Drafts before 8 have no names, and no two policies of one quota: of those the longer window stays. */
function oldPolicies(policies: Policies | undefined, { warn }: Style): HeaderFields {
  if (!policies) return {};
  let list = writtenOld.get(policies);
  if (list === undefined) {
    const windows = new Map<number, number>();
    for (const { limit, windowMs } of listOf(policies)) {
      if (windows.has(limit))
        warn(`drafts before 8 can't list two policies of ${limit}: the shorter window is left out`);
      windows.set(limit, Math.max(windowMs, windows.get(limit) ?? 0));
    }
    list = Array.from(windows, ([limit, ms]) => `${clamp(limit)};w=${seconds(ms)}`).join(", ");
    writtenOld.set(policies, list);
  }
  return { "RateLimit-Policy": list };
}

/** The one policy that older fields tell of: the least is left of it, and of equals it takes the longest. */
function tightest(decision: Decision): { limit: number; remaining: number; reset: number; resetMs: number } {
  const parts = decision.parts ?? [decision];
  const chosen = parts.reduce((least, part) =>
    part.remaining < least.remaining || (part.remaining === least.remaining && resetOf(part) > resetOf(least))
      ? part
      : least,
  );
  // A denied client is told one instant, whichever field it reads.
  const resetMs = decision.allowed ? chosen.resetAfterMs : (decision.retryAfterMs ?? chosen.resetAfterMs);
  return {
    limit: clamp(Math.floor(chosen.limit)),
    remaining: clamp(Math.floor(chosen.remaining)),
    reset: clamp(Math.ceil(resetMs / 1000)),
    resetMs,
  };
}

function resetOf({ retryAfterMs, resetAfterMs }: Decision): number {
  return retryAfterMs ?? resetAfterMs;
}

/** A structured-field Byte Sequence, without its colons. */
function checkBase64(value: unknown): string {
  if (typeof value === "string" && value !== "" && BASE64.test(value)) return value;
  // The value stays out of the message: it may be the key itself.
  throw optionError("invalid-option", "partitionKey", "a function that gives base64, such as partitionKey(secret)");
}

/** Groups of four, the last one padded. Some parsers reject other lengths, and with them the whole field. */
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Names as structured-field Strings. There are few of them, and every response has some. */
const texts = new Map<string, string>();

/** A structured-field String. Our names are printable ASCII; what else a limiter of others has must not break a header. */
function text(value: string): string {
  let found = texts.get(value);
  if (found === undefined) {
    found = `"${value.replace(/[^ -~]/g, "?").replace(/["\\]/g, "\\$&")}"`;
    if (texts.size >= 1000) texts.clear();
    texts.set(value, found);
  }
  return found;
}

/** A structured-field Integer has at most 15 digits. */
function clamp(value: number): number {
  return Math.min(value, 999_999_999_999_999);
}

const SYNTAX: Record<HeaderMode, Syntax> = {
  "draft-8": "draft-8",
  "draft-9": "draft-8",
  "draft-10": "draft-8",
  "draft-11": "draft-8",
  latest: "draft-8",
  "draft-7": "draft-7",
  "draft-6": "draft-6",
  legacy: "legacy",
};

function checkModes(given: HeaderMode | readonly HeaderMode[]): Syntax[] {
  const modes = typeof given === "string" ? [given] : given;
  if (!Array.isArray(modes) || modes.length === 0) {
    throw optionError("invalid-option", "headers", "a mode, a list of modes, or false", given);
  }
  for (const mode of modes) oneOf("headers", mode, Object.keys(SYNTAX));
  const chosen = [...new Set(modes.map((mode: HeaderMode) => SYNTAX[mode]))];
  if (chosen.includes("draft-8") && chosen.some((mode) => mode === "draft-7" || mode === "draft-6")) {
    const expected = "modes that do not use the same names: draft-8 goes with legacy only";
    throw optionError("invalid-option", "headers", expected, modes.join(", "));
  }
  return chosen;
}

function oneOf(option: string, value: unknown, allowed: readonly string[]): void {
  if (typeof value === "string" && allowed.includes(value)) return;
  throw optionError("invalid-option", option, `one of ${allowed.join(", ")}`, value);
}
