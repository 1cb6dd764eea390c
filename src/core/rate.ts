/** Durations and rates, read once into whole numbers. A rate is a ratio of integers, never a rounded double. */
import { SluiceError } from "./errors.ts";

/** A unit of time in text. */
type TimeUnit = "ms" | "s" | "m" | "h" | "d";

/** Milliseconds, or text such as `"250ms"`, `"1s"`, `"5m"`, `"1h"`, `"30d"`. */
export type Duration = number | `${number}${TimeUnit}`;

/** So many per so long: `"10/s"`, `"3/h"`, `"100/15m"`. */
export type RateText = `${number}/${TimeUnit}` | `${number}/${number}${TimeUnit}`;

/** Tokens per millisecond, in lowest terms: `p` tokens every `q` milliseconds. */
export interface Ratio {
  readonly p: number;
  readonly q: number;
}

const UNIT_MS: Record<TimeUnit, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const UNITS = Object.entries(UNIT_MS) as [TimeUnit, number][];
/** Slower or faster than this no bucket could keep exact time. */
const SLOWEST = 1e-12;
const FASTEST = 1e12;

/** A duration in milliseconds; not yet checked to be whole or in range unless it was text. */
export function parseDuration(option: string, value: unknown): unknown {
  if (typeof value !== "string") return value;
  const match = /^(\d{1,15})(ms|s|m|h|d)$/.exec(value);
  if (match) return Number(match[1]) * UNIT_MS[match[2] as TimeUnit];
  throw new SluiceError(
    "invalid-option",
    option,
    'milliseconds or text such as "250ms", "1s", "5m", "1h", "30d"',
    value,
  );
}

/** `"100/15m"` as a count and a window in milliseconds. */
export function parseRate(option: string, value: unknown): { count: number; windowMs: number } {
  const match = typeof value === "string" && /^(\d{1,15})\/(\d{0,15})(ms|s|m|h|d)$/.exec(value);
  if (match) {
    const count = Number(match[1]);
    const windowMs = Number(match[2] || 1) * UNIT_MS[match[3] as TimeUnit];
    if (windowMs > Number.MAX_SAFE_INTEGER) throw new SluiceError("out-of-range", option, "a shorter time", value);
    if (count >= 1 && windowMs >= 1) return { count, windowMs };
  }
  throw new SluiceError("invalid-option", option, 'a rate such as "10/s", "3/h" or "100/15m"', value);
}

/** The exact ratio of a rate per second, given as a number or as text. */
export function parseRatio(option: string, rate: unknown): Ratio {
  if (typeof rate === "string") {
    const { count, windowMs } = parseRate(option, rate);
    return lowest(count, windowMs);
  }
  if (typeof rate !== "number" || !(rate > 0 && rate < Number.POSITIVE_INFINITY)) {
    throw new SluiceError("invalid-option", option, 'a number > 0, or a rate such as "3/h"', rate);
  }
  if (rate < SLOWEST || rate > FASTEST) {
    throw new SluiceError("out-of-range", option, `from ${SLOWEST} to ${FASTEST}`, rate);
  }
  const [tokens, seconds] = simplestFraction(rate);
  const common = gcd(tokens, 1000);
  return { p: tokens / common, q: seconds * (1000 / common) };
}

/** A rate in the words that a person would use: per the shortest unit in which it is a whole number. */
export function rateText(p: number, q: number): string {
  const unit = UNITS.find(([, ms]) => ms > 1 && ms % q === 0);
  return unit ? `${p * (unit[1] / q)}/${unit[0]}` : `${p}/${q}ms`;
}

/** A duration in its longest whole unit. */
export function durationText(ms: number): string {
  const [unit, size] = UNITS.findLast(([, size]) => ms % size === 0) as [TimeUnit, number];
  return `${ms / size}${unit}`;
}

/** The simplest fraction that is this double: 0.1 is 1/10, 3/3600 is 1/1200 (continued fraction, exact). */
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
    [above, aboveBefore] = [whole * above + aboveBefore, above];
    [below, belowBefore] = [whole * below + belowBefore, below];
    if (Number(above) / Number(below) === value) return [Number(above), Number(below)];
    [numerator, denominator] = [denominator, numerator - whole * denominator];
  }
}

function lowest(p: number, q: number): Ratio {
  const common = gcd(p, q);
  return { p: p / common, q: q / common };
}

function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b);
}
