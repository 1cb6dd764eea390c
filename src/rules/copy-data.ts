/** Copies data of unknown origin: getters and proxies run once, here, and whatever follows reads plain data. */
import type { Steps } from "../base/slices.ts";
import { at, type Issues, type Place, ROOT } from "./issues.ts";

/** Lists and objects below this depth are never valid or read, so they are not copied. The deepest limit is at 6. */
const MAX_DEPTH = 6;
/** Items of a list. */
const MAX_ITEMS = 10_000;
/** Members and items of the whole file. */
const MAX_MEMBERS = 1_000_000;

/** Members that are read in one step, which takes about half a millisecond. */
const ITEMS_PER_STEP = 1000;

const UNREADABLE = "can't be read, because reading it throws an exception";

interface Pending {
  readonly source: object;
  readonly copy: Record<string, unknown> | unknown[];
  readonly place: Place;
  readonly depth: number;
}

/** The names of the members of large copies: reading them again takes as long as 20 steps. */
const largeKeys = /* @__PURE__ */ new WeakMap<object, readonly string[]>();

/** The names of the members of a copy. */
export function namesOf(copy: object): readonly string[] {
  return largeKeys.get(copy) ?? Object.keys(copy);
}

/**
 * Returns a copy with the own enumerable members, without those that are `undefined`, and a function that freezes it.
 * Level by level, so that an object that occurs at several depths is copied at the smallest one.
 */
export function* copyData(value: unknown, issues: Issues): Steps<{ data: unknown; freeze(): Steps<void> }> {
  const copies = new Map<object, Pending["copy"]>();
  const queue: Pending[] = [];
  let [members, read] = [0, 0];

  const copyOf = (source: unknown, depth: number, place: () => Place): unknown => {
    if (typeof source !== "object" || source === null) return source;
    const known = copies.get(source);
    if (known) return known;
    if (depth > MAX_DEPTH) return source;
    const copy = isList(source) ? [] : {};
    copies.set(source, copy);
    queue.push({ source, copy, place: place(), depth });
    return copy;
  };

  const data = copyOf(value, 0, () => ROOT);
  // The queue grows during the loop.
  for (const { source, copy, place, depth } of queue) {
    const keys = keysOf(source, copy, place, issues);
    members += keys.length;
    if (members > MAX_MEMBERS) {
      issues.add(ROOT, `has more than ${MAX_MEMBERS} members`);
      break;
    }
    if (keys.length > MAX_ITEMS && Array.isArray(copy)) {
      issues.add(place, `has more than ${MAX_ITEMS} items`);
      continue;
    }
    const isLarge = keys.length > ITEMS_PER_STEP;
    const kept: string[] = [];
    if (isLarge) yield;
    for (const key of keys) {
      if (++read % ITEMS_PER_STEP === 0) yield;
      let item: unknown;
      try {
        item = copyOf((source as Record<string | number, unknown>)[key], depth + 1, () => at(place, key));
      } catch {
        issues.add(at(place, key), UNREADABLE);
      }
      if (Array.isArray(copy)) copy.push(item);
      else if (item === undefined) continue;
      else if (key === "__proto__") Object.defineProperty(copy, key, { value: item, enumerable: true });
      else copy[key] = item;
      if (isLarge) kept.push(key as string);
    }
    if (isLarge && !Array.isArray(copy)) largeKeys.set(copy, kept);
  }
  function* freeze(): Steps<void> {
    let frozen = 0;
    for (const copy of copies.values()) {
      Object.freeze(copy);
      if (++frozen % ITEMS_PER_STEP === 0) yield;
    }
  }
  return { data, freeze };
}

/** `Array.isArray` throws for a proxy that was revoked. */
function isList(value: object): boolean {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

/** The names of the members, or the indexes of a list, holes included, and one too many if the list is too long. */
function keysOf(source: object, copy: Pending["copy"], place: Place, issues: Issues): readonly (string | number)[] {
  try {
    if (!Array.isArray(copy)) return Object.keys(source);
    const length = Math.min(Number((source as unknown[]).length) >>> 0, MAX_ITEMS + 1);
    return Array.from({ length }, (_, i) => i);
  } catch {
    issues.add(place, UNREADABLE);
    return [];
  }
}
