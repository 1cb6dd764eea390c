/** The version of rules: equal data has equal versions, whatever the order of its members. */
import type { Steps } from "../base/slices.ts";
import { namesOf } from "./copy-data.ts";
import { HexHash } from "./hex-hash.ts";
import type { RulesData } from "./rules-data.ts";

/** Members that are read in one step. */
const MEMBERS_PER_STEP = 500;
/** Names that are sorted in one step. */
const SORTED_PER_STEP = 2000;

/** 8 hex digits: the hash of the canonical JSON, without `$schema`, and that of each member. */
export function* versionsOf({
  $schema: _,
  ...data
}: Readonly<RulesData>): Steps<{ version: string; memberVersions: ReadonlyMap<string, string> }> {
  const all = new HexHash();
  const memberVersions = new Map<string, string>();
  const names = Object.keys(data).sort();
  all.add("{");
  for (const [i, name] of names.entries()) {
    const own = new HexHash();
    const start = `${i > 0 ? "," : ""}${JSON.stringify(name)}:`;
    all.add(start);
    yield* canonicalJson((data as Record<string, unknown>)[name], (text) => {
      all.add(text);
      own.add(text);
    });
    memberVersions.set(name, own.digits);
  }
  all.add("}");
  return { version: all.digits, memberVersions };
}

/** Writes JSON with the members of every object in order. */
function* canonicalJson(value: unknown, write: (text: string) => void): Steps<void> {
  if (typeof value !== "object" || value === null) {
    write(JSON.stringify(value));
    return;
  }
  const isList = Array.isArray(value);
  const keys = isList ? undefined : yield* sorted(namesOf(value));
  const length = isList ? value.length : (keys as readonly string[]).length;
  write(isList ? "[" : "{");
  for (let i = 0; i < length; i++) {
    if (i > 0) write(",");
    if (i % MEMBERS_PER_STEP === MEMBERS_PER_STEP - 1) yield;
    const key = keys?.[i];
    if (key !== undefined) write(`${JSON.stringify(key)}:`);
    yield* canonicalJson(isList ? value[i] : (value as Record<string, unknown>)[key as string], write);
  }
  write(isList ? "]" : "}");
}

/** Sorts names: parts of the list, and then pairs of sorted parts. */
function* sorted(names: readonly string[]): Steps<readonly string[]> {
  let parts: string[][] = [];
  for (let i = 0; i < names.length; i += SORTED_PER_STEP) {
    if (i > 0) yield;
    parts.push(names.slice(i, i + SORTED_PER_STEP).sort());
  }
  while (parts.length > 1) {
    const merged: string[][] = [];
    for (let i = 0; i < parts.length; i += 2) merged.push(yield* merge(parts[i] as string[], parts[i + 1] ?? []));
    parts = merged;
  }
  return parts[0] ?? [];
}

function* merge(a: readonly string[], b: readonly string[]): Steps<string[]> {
  const merged: string[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (merged.length % SORTED_PER_STEP === 0) yield;
    const isFirst = j === b.length || (i < a.length && (a[i] as string) <= (b[j] as string));
    merged.push((isFirst ? a[i++] : b[j++]) as string);
  }
  return merged;
}
