/** Checks shared by everything that takes options. A wrong option never becomes a silent default. */
import { SluiceError } from "./errors.ts";

/** Refuses what is not an options object, and members that nobody reads. */
export function checkOptions(what: string, options: unknown, known: readonly string[]): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new SluiceError("invalid-option", what, "an object", options);
  }
  for (const option of Object.keys(options)) {
    if (known.includes(option) || (options as Record<string, unknown>)[option] === undefined) continue;
    throw new SluiceError("unknown-option", option, `one of ${known.join(", ")} in ${what}`);
  }
}

/** A whole number from `least` to `most`. */
export function checkWhole(option: string, value: unknown, least: number, most: number): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= least) {
    if (value <= most) return value;
    throw new SluiceError("out-of-range", option, `at most ${most}`, value);
  }
  throw new SluiceError("invalid-option", option, `a whole number >= ${least}`, value);
}
