/** A policy as the arithmetic sees it: checked, in whole numbers, with nothing left to parse. */
import { optionError } from "./errors.ts";
import { checkOptions, checkWhole } from "./options.ts";
import type { AlgorithmName, Policy, ResolvedPolicy } from "./policy.ts";
import { type PolicyText, policyFromText } from "./policy-text.ts";
import { durationText, greatestDivisor, parseDuration, parseRatio, rateText } from "./rate.ts";

/** The same members for every algorithm, so that code which reads them stays fast. */
export interface CompiledPolicy {
  readonly algorithm: AlgorithmName;
  /** The policy's name, as decisions carry it. */
  readonly name: string;
  /** Name and prefix: a store has one policy of each, or plans that share it. */
  readonly qualifiedName: string;
  /**
   * Identifies its buckets on a store: algorithm, prefix and name, and of a named policy its window or fill time.
   * Policies with the same window may share buckets: state of a longer one would look like a clock error to a shorter one.
   */
  readonly id: string;
  /** The most that fits at once. */
  readonly limit: number;
  /** The window; of a bucket, the time to fill. */
  readonly windowMs: number;
  /** What a cost of 1 is in units, the whole numbers in which an algorithm counts. */
  readonly unitsPerToken: number;
  /** The limit in units. */
  readonly capacityUnits: number;
  /** Whether it refills continuously, as buckets do. Windows give back at their end. */
  readonly refills: boolean;
  /** Units that a bucket refills per millisecond; 0 for windows. */
  readonly unitsPerMs: number;
  /** Whether other policies may share its buckets. */
  readonly share: boolean;
  /** What users see of it. */
  readonly resolved: ResolvedPolicy;
}

const COMMON = ["algorithm", "name", "prefix", "share"];
const WINDOW = [...COMMON, "limit", "windowMs"];
const KNOWN: Record<AlgorithmName, readonly string[]> = {
  "token-bucket": [...COMMON, "capacity", "tokensPerSecond"],
  "leaky-bucket": [...COMMON, "capacity", "leaksPerSecond"],
  "fixed-window": WINDOW,
  "sliding-window": WINDOW,
  "sliding-log": WINDOW,
};
/** How each algorithm is called in a policy's own text. */
const WORD: Record<AlgorithmName, string> = {
  "token-bucket": "burst",
  "leaky-bucket": "queue",
  "fixed-window": "fixed",
  "sliding-window": "sliding",
  "sliding-log": "log",
};

const EXACT = Number.MAX_SAFE_INTEGER;
/** Twice a window after the end of time is still exact. */
const MAX_WINDOW_MS = 2 ** 51;
const MAX_FILL_MS = 2 ** 52;
const MAX_LOG_LIMIT = 10_000;

/** Checks a policy and turns it into whole numbers, or refuses it by the name of the option. */
export function compilePolicy(given: Policy | PolicyText): CompiledPolicy {
  const policy = typeof given === "string" ? policyFromText("policy", given) : given;
  if (typeof policy !== "object" || policy === null) {
    const expected = 'a policy, such as "5/s", tokenBucket("5/s") or { capacity: 10, tokensPerSecond: 5 }';
    throw optionError("invalid-option", "policy", expected, policy);
  }
  const { algorithm = "token-bucket" } = policy;
  if (policy.algorithm === undefined && policy.limit !== undefined) {
    const expected = "fixed-window, sliding-window or sliding-log beside limit and windowMs";
    throw optionError("invalid-option", "algorithm", expected, undefined);
  }
  if (typeof algorithm !== "string" || !Object.hasOwn(KNOWN, algorithm)) {
    throw optionError("invalid-option", "algorithm", `one of ${Object.keys(KNOWN).join(", ")}`, algorithm);
  }
  checkOptions(`a ${algorithm} policy`, policy, KNOWN[algorithm]);
  const { prefix, share = false } = policy;
  checkLabel("name", policy.name);
  checkLabel("prefix", prefix);
  if (typeof share !== "boolean" || (share && policy.name === undefined)) {
    const expected = typeof share === "boolean" ? "a name beside it, which the plans have in common" : "true or false";
    throw optionError("invalid-option", "share", expected, share);
  }

  const numbers =
    algorithm === "token-bucket"
      ? bucketNumbers("tokensPerSecond", policy.capacity, policy.tokensPerSecond)
      : algorithm === "leaky-bucket"
        ? bucketNumbers("leaksPerSecond", policy.capacity, policy.leaksPerSecond)
        : windowNumbers(algorithm, policy.limit, policy.windowMs);
  const { limit, windowMs, p, unit } = numbers;
  const refills = p > 0;
  const word = WORD[algorithm];
  const ownText = refills ? `${rateText(p, unit)} ${word} ${limit}` : `${limit}/${durationText(windowMs)} ${word}`;
  const name = policy.name ?? ownText;
  const resolved: ResolvedPolicy = Object.freeze({
    algorithm,
    name,
    ...(prefix === undefined ? {} : { prefix }),
    capacity: limit,
    tokensPerSecond: refills ? (p * 1000) / unit : (limit * 1000) / windowMs,
    limit,
    windowMs,
  });
  // The length tells where the name ends, so that no name and prefix run together.
  const qualifiedName = `${name.length}:${name}${prefix ?? ""}`;
  // Short, because stores keep it with every key. Only the id of a named policy contains a colon.
  const ownId = refills ? `${rateText(p, unit)},${limit}` : `${limit}/${durationText(windowMs)}`;
  const ownOrNamed =
    name === ownText ? ownId : `${refills ? fillText(limit * unit, p) : durationText(windowMs)}:${name}`;
  const id = word[0] + (prefix === undefined ? ownOrNamed : `.${prefix.length}:${prefix}${ownOrNamed}`);
  return Object.freeze({
    algorithm,
    name,
    qualifiedName,
    id,
    limit,
    windowMs,
    unitsPerToken: unit,
    capacityUnits: limit * unit,
    refills,
    unitsPerMs: p,
    share,
    resolved,
  });
}

/** The exact time in which a bucket of `cap` units fills at `p` units per millisecond. */
function fillText(cap: number, p: number): string {
  const common = greatestDivisor(cap, p);
  return p === common ? durationText(cap / common) : `${cap / common}/${p / common}ms`;
}

interface Numbers {
  limit: number;
  windowMs: number;
  unit: number;
  p: number;
}

function bucketNumbers(option: string, capacity: unknown, rate: unknown): Numbers {
  const limit = checkWhole("capacity", capacity, 1, EXACT);
  const { p, q } = parseRatio(option, rate);
  if (p > 2 ** 32 || q > EXACT) {
    throw optionError("out-of-range", option, "a ratio of smaller whole numbers", rate);
  }
  const largest = Math.min(Math.floor(EXACT / q), Math.floor((MAX_FILL_MS / q) * p));
  const expected = `from ${Math.ceil(p / q)} to ${largest} at this rate`;
  if (limit > largest || limit * q < p) {
    throw optionError("out-of-range", "capacity", expected, capacity);
  }
  return { limit, windowMs: Math.ceil((limit * q) / p), unit: q, p };
}

function windowNumbers(algorithm: AlgorithmName, givenLimit: unknown, givenWindow: unknown): Numbers {
  const windowMs = checkWhole("windowMs", parseDuration("windowMs", givenWindow), 1, MAX_WINDOW_MS);
  const sliding = algorithm === "sliding-window";
  const most = sliding ? Math.floor(EXACT / windowMs / 2) : algorithm === "sliding-log" ? MAX_LOG_LIMIT : EXACT;
  return { limit: checkWhole("limit", givenLimit, 1, most), windowMs, unit: sliding ? windowMs : 1, p: 0 };
}

/** Names and prefixes go into headers and stored keys, so they are short and printable. */
function checkLabel(option: "name" | "prefix", value: unknown): void {
  if (value === undefined || (typeof value === "string" && /^[ -~]{1,64}$/.test(value))) return;
  throw optionError("invalid-option", option, "1 to 64 printable ASCII characters", value);
}
