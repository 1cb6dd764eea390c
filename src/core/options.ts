/** Checks shared by everything that takes options. A wrong option never becomes a silent default. */
import { SluiceError } from "./errors.ts";

/** Refuses what is not an options object, and members that nobody reads. */
export function checkOptions(what: string, options: unknown, known: readonly string[]): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new SluiceError({ code: "invalid-option", option: what, received: options, expected: "an object" });
  }
  for (const option of Object.keys(options)) {
    if (known.includes(option) || (options as Record<string, unknown>)[option] === undefined) continue;
    throw new SluiceError({ code: "unknown-option", option, expected: `one of ${known.join(", ")} in ${what}` });
  }
}

/** A whole number from `least` to `most`. */
export function checkWhole(option: string, value: unknown, least: number, most: number): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= least) {
    if (value <= most) return value;
    throw new SluiceError({ code: "out-of-range", option, received: value, expected: `at most ${most}` });
  }
  throw new SluiceError({
    code: "invalid-option",
    option,
    received: value === undefined ? "nothing" : value,
    expected: `a whole number >= ${least}`,
  });
}
