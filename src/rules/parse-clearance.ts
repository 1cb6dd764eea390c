/** Which limits callers with a clearance have. */
import { at, type Place } from "./issues.ts";
import type { WrittenLimit } from "./parse-limits.ts";

/** What a clearance is always counted per: one solution, and one address that solves many. */
const COUNTED_PER = ["clearance", "ip"];

/**
 * The limits that replace those that end in a challenge: as written, else those limits themselves. Limits without an
 * identity of their own for clearances and IP addresses are counted per both.
 */
export function clearedLimits(
  place: Place,
  written: readonly WrittenLimit[],
  challenged: readonly WrittenLimit[],
): readonly WrittenLimit[] {
  const source = written.length > 0 ? written : challenged;
  const values = source.flatMap(({ value, place }) =>
    Array.isArray(value) ? value.map((item, i) => ({ item, place: at(place, i) })) : [{ item: value, place }],
  );
  const missing = COUNTED_PER.filter((per) => !written.some((limit) => limit.per === per));
  return [
    ...written,
    ...missing.map((per) => ({
      per,
      value: values.map(({ item }) => item as unknown),
      place: at(place, per),
      itemPlaces: values.map(({ place }) => place),
    })),
  ];
}
