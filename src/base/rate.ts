/** Parses durations and rates into whole numbers. A rate is a ratio of integers, never a rounded double. */
import { optionError, SluiceError, show } from "./errors.ts";

/** Unit of time in text. The short forms are canonical. */
export type TimeUnit =
  | "ms"
  | "s"
  | "m"
  | "h"
  | "d"
  | `millisecond${"" | "s"}`
  | "sec"
  | `second${"" | "s"}`
  | "min"
  | `minute${"" | "s"}`
  | `hour${"" | "s"}`
  | `day${"" | "s"}`;

/** Milliseconds, or text such as `"250ms"`, `"1s"`, `"5m"`, `"1h"`, `"30 days"`. */
export type Duration = number | `${number}${"" | " "}${TimeUnit}`;

/** A count per period: `"10/s"`, `"3/h"`, `"100/15m"`, `"100/minute"`. For a plain string, use `parsePolicy`. */
export type RateText = `${number}/${TimeUnit}` | `${number}/${number}${TimeUnit}`;

/** Tokens per millisecond in lowest terms: `p` tokens every `q` milliseconds. */
export interface Ratio {
  readonly p: number;
  readonly q: number;
}

const SHORT_UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const UNITS = Object.entries(SHORT_UNITS) as [TimeUnit, number][];
const LONG_UNITS: readonly [RegExp, number][] = [
  [/^milliseconds?$/, 1],
  [/^(?:sec|seconds?)$/, 1000],
  [/^(?:min|minutes?)$/, 60_000],
  [/^hours?$/, 3_600_000],
  [/^days?$/, 86_400_000],
];
const UNIT_NAMES = "ms, s, m, h and d, or millisecond, second (sec), minute (min), hour and day";
/** Beyond these rates per second, no bucket could keep exact time. */
const MIN_RATE = 1e-12;
const MAX_RATE = 1e12;

/** Parses a duration into milliseconds. Numbers are returned as they are, without a check. */
export function parseDuration(option: string, value: unknown): unknown {
  if (typeof value !== "string") return value;
  const match = /^(\d{1,16}) ?([a-z]+)$/.exec(value);
  const unit = match && unitMs(match[2] as string);
  if (unit) return Number(match[1]) * unit;
  const expected = 'a number of milliseconds, or text such as "250ms", "1s", "5m", "1h" or "30d"';
  throw optionError("invalid-option", option, expected, value);
}

/** Parses a rate such as `"100/15m"` into a count and a window in milliseconds. */
export function parseRate(option: string, value: unknown): { count: number; windowMs: number } {
  const match = typeof value === "string" && /^(\d{1,16})\/(\d{0,16})([a-z]+)$/.exec(value);
  const unit = match && unitMs(match[3] as string);
  if (!unit) throw rateError(option, value);
  const count = Number(match[1]);
  const windowMs = Number(match[2] || 1) * unit;
  if (count > Number.MAX_SAFE_INTEGER) throw optionError("out-of-range", option, "a rate with a smaller count", value);
  if (windowMs > Number.MAX_SAFE_INTEGER)
    throw optionError("out-of-range", option, "a rate with a shorter time", value);
  if (count < 1) throw optionError("invalid-option", option, "a rate with a count of at least 1", value);
  if (windowMs < 1) throw optionError("invalid-option", option, "a rate per at least 1 unit of time", value);
  return { count, windowMs };
}

function unitMs(unit: string): number | undefined {
  if (Object.hasOwn(SHORT_UNITS, unit)) return SHORT_UNITS[unit as keyof typeof SHORT_UNITS];
  return LONG_UNITS.find(([names]) => names.test(unit))?.[1];
}

/** The error for an invalid rate. Suggests the correct spelling of one that is almost valid. */
function rateError(option: string, value: unknown): SluiceError {
  const hint = rateHint(value);
  if (hint === undefined) {
    const expected = `a rate such as "10/s", "100/15m" or "1000/day" (units: ${UNIT_NAMES})`;
    return optionError("invalid-option", option, expected, value);
  }
  const details = { option, expected: hint, received: value };
  return new SluiceError("invalid-option", `${option} ${show(value)} is not a rate. ${hint}`, details);
}

function rateHint(value: unknown): string | undefined {
  // Only short text: the time of this expression grows with the cube of the number of spaces.
  const match =
    typeof value === "string" &&
    value.length < 40 &&
    /^\s*(\d+(?:\.\d+)?)\s*(?:\/|per)\s*(\d*)\s*([a-z]*)\s*$/i.exec(value);
  if (!match) return undefined;
  const [, count = "", every = "", unit = ""] = match;
  if (/^(?:w|weeks?|months?|mo|y|years?)$/i.test(unit)) {
    return `The longest unit is a day: write "${count}/7d" for a week or "${count}/30d" for a month.`;
  }
  const ms = unitMs(unit) ?? unitMs(unit.toLowerCase());
  if (ms === undefined) return undefined;
  const short = UNITS.find(([, size]) => size === ms)?.[0];
  if (!count.includes(".")) return `Write "${count}/${every}${short}".`;
  const tens = 10 ** (count.length - count.indexOf(".") - 1);
  const [whole, times] = [Math.round(Number(count) * tens), tens * Number(every || 1)];
  const common = greatestDivisor(whole, times);
  return `The count must be a whole number: write "${whole / common}/${times / common}${short}".`;
}

/** Parses a rate per second, given as a number or as text, into an exact ratio. */
export function parseRatio(option: string, rate: unknown): Ratio {
  if (typeof rate === "string") {
    const { count, windowMs } = parseRate(option, rate);
    return lowest(count, windowMs);
  }
  if (typeof rate !== "number" || !(rate > 0 && rate < Number.POSITIVE_INFINITY)) {
    throw optionError("invalid-option", option, 'a number > 0, or a rate such as "3/h"', rate);
  }
  if (rate < MIN_RATE || rate > MAX_RATE) {
    throw optionError("out-of-range", option, `from ${MIN_RATE} to ${MAX_RATE}`, rate);
  }
  const [tokens, seconds] = simplestFraction(rate);
  const common = greatestDivisor(tokens, 1000);
  return { p: tokens / common, q: seconds * (1000 / common) };
}

/** Formats a rate with the shortest unit in which its count is a whole number. */
export function rateText(p: number, q: number): string {
  const unit = UNITS.find(([, ms]) => ms > 1 && ms % q === 0);
  return unit ? `${p * (unit[1] / q)}/${unit[0]}` : `${p}/${q}ms`;
}

/** Formats a duration with the longest unit in which it is a whole number. */
export function durationText(ms: number): string {
  const [unit, size] = UNITS.findLast(([, size]) => ms % size === 0) as [TimeUnit, number];
  return `${ms / size}${unit}`;
}

/** The simplest fraction that equals this double, by continued fractions: 0.1 is 1/10, 3/3600 is 1/1200. */
function simplestFraction(value: number): [number, number] {
  let scaled = value;
  let denominator = 1n;
  while (!Number.isInteger(scaled)) {
    scaled *= 2;
    denominator *= 2n;
  }
  let numerator = BigInt(scaled);
  let [above, below, aboveBefore, belowBefore] = [1n, 0n, 0n, 1n];
  for (;;) {
    const whole = numerator / denominator;
    const fraction = (steps: bigint): [number, number] => [
      Number(steps * above + aboveBefore),
      Number(steps * below + belowBefore),
    ];
    const hits = (steps: bigint): boolean => fraction(steps)[0] / fraction(steps)[1] === value;
    if (hits(whole)) {
      // A part of the last term may be enough.
      let [least, most] = [below === 0n ? whole : 1n, whole];
      while (least < most) {
        const middle = (least + most) / 2n;
        if (hits(middle)) most = middle;
        else least = middle + 1n;
      }
      return fraction(most);
    }
    [above, aboveBefore] = [whole * above + aboveBefore, above];
    [below, belowBefore] = [whole * below + belowBefore, below];
    [numerator, denominator] = [denominator, numerator - whole * denominator];
  }
}

function lowest(p: number, q: number): Ratio {
  const common = greatestDivisor(p, q);
  return { p: p / common, q: q / common };
}

/** The greatest common divisor of two whole numbers. */
export function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b);
}
