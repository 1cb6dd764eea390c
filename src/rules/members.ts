/** Checks the types of members, and reports every other type as an issue. */
import { show } from "../base/errors.ts";
import { at, type Issues, type Place, quoted } from "./issues.ts";

/** An object of the data, which has plain members only. */
export type Members = Readonly<Record<string, unknown>>;

/** The names of rules, budgets and plans. */
const NAME = /^[\w-]{1,40}$/;
const NAME_TEXT = '1 to 40 letters, digits, "_" or "-"';

/** Returns the value if it is an object. */
export function objectAt(issues: Issues, place: Place, value: unknown, expected: string): Members | undefined {
  if (isMembers(value)) return value;
  issues.addType(place, expected);
  return undefined;
}

/** Whether it is an object and not a list. */
export function isMembers(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Reports members that are not known. */
export function checkMembers(issues: Issues, place: Place, members: Members, known: readonly string[]): void {
  for (const name of Object.keys(members)) {
    if (!known.includes(name)) {
      issues.addUnknown(at(place, name), "member", name, known, `the members are ${quoted(known)}`);
    }
  }
}

/** Returns the member, one of these values, or `undefined`. */
export function choiceAt<T extends string>(
  issues: Issues,
  place: Place,
  { [place.key]: value }: Members,
  choices: readonly T[],
): T | undefined {
  if (value === undefined || choices.includes(value as T)) return value as T | undefined;
  issues.addType(place, choices.map((choice) => `"${choice}"`).join(" or "));
  return undefined;
}

/** Returns the member, a boolean, or `undefined`. */
export function booleanAt(issues: Issues, place: Place, { [place.key]: value }: Members): boolean | undefined {
  if (value === undefined || typeof value === "boolean") return value;
  issues.addType(place, "true or false");
  return undefined;
}

/** Whether a key is the name of a budget; else, that is an issue. */
export function isNameKey(issues: Issues, place: Place, key: string): boolean {
  if (NAME.test(key)) return true;
  issues.add(place, `the name ${show(key)} must be ${NAME_TEXT}`);
  return false;
}

/** Returns the value if it is the name of a rule or a plan. */
export function nameAt(issues: Issues, place: Place, value: unknown): string | undefined {
  if (typeof value === "string" && NAME.test(value)) return value;
  issues.addType(place, NAME_TEXT);
  return undefined;
}

/** Returns the texts of a member that is one text or a list of at least one, each with its place. */
export function textsAt(
  issues: Issues,
  place: Place,
  value: unknown,
  expected: string,
): { readonly place: Place; readonly text: string }[] {
  const items = Array.isArray(value)
    ? value.map((item, i) => ({ place: at(place, i), item }))
    : [{ place, item: value }];
  if (items.length === 0) issues.add(place, `needs at least one item`);
  return items.flatMap(({ place, item }) => {
    if (typeof item === "string") return [{ place, text: item }];
    issues.addType(place, expected);
    return [];
  });
}
