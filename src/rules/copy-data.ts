/** Copies data of unknown origin: getters and proxies run once, here, and whatever follows reads plain data. */
import { at, type Issues, type Place, ROOT } from "./issues.ts";

/** Lists and objects below this depth are never valid, so they are not copied. A list of limits by plan is at 5. */
const MAX_DEPTH = 6;
/** Items of a list. */
const MAX_ITEMS = 10_000;
/** Members and items of the whole file. */
const MAX_MEMBERS = 1_000_000;

interface Pending {
  readonly source: object;
  readonly copy: Record<string, unknown> | unknown[];
  readonly place: Place;
  readonly depth: number;
}

/**
 * Returns a copy with the own enumerable members, without those that are `undefined`, and a function that freezes it.
 * Level by level, so that an object that occurs at several depths is copied at the smallest one.
 */
export function copyData(value: unknown, issues: Issues): { data: unknown; freeze(): void } {
  const copies = new Map<object, Pending["copy"]>();
  const queue: Pending[] = [];
  let members = 0;

  const copyOf = (source: unknown, place: Place, depth: number): unknown => {
    if (typeof source !== "object" || source === null) return source;
    const known = copies.get(source);
    if (known) return known;
    const copy = isList(source) ? [] : {};
    copies.set(source, copy);
    if (depth <= MAX_DEPTH) queue.push({ source, copy, place, depth });
    return copy;
  };

  const data = copyOf(value, ROOT, 0);
  // The queue grows during the loop.
  for (const { source, copy, place, depth } of queue) {
    const keys = read(() => (Array.isArray(copy) ? indexesOf(source) : Object.keys(source)), issues, place) ?? [];
    members += keys.length;
    if (members > MAX_MEMBERS) {
      issues.add(ROOT, `has more than ${MAX_MEMBERS} members`);
      break;
    }
    if (keys.length > MAX_ITEMS && Array.isArray(copy)) {
      issues.add(place, `has more than ${MAX_ITEMS} items`);
      continue;
    }
    for (const key of keys) {
      const member = at(place, key);
      const item = copyOf(
        read(() => (source as Record<string | number, unknown>)[key], issues, member),
        member,
        depth + 1,
      );
      if (Array.isArray(copy)) copy.push(item);
      else if (item === undefined) continue;
      else if (key === "__proto__") Object.defineProperty(copy, key, { value: item, enumerable: true });
      else copy[key] = item;
    }
  }
  const freeze = () => {
    for (const copy of copies.values()) Object.freeze(copy);
  };
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

/** The indexes of a list, holes included, and one too many if the list is too long. */
function indexesOf(list: object): number[] {
  const length = Math.min(Number((list as unknown[]).length) >>> 0, MAX_ITEMS + 1);
  return Array.from({ length }, (_, i) => i);
}

/** Reads a member, whose getter may throw. */
function read<T>(get: () => T, issues: Issues, place: Place): T | undefined {
  try {
    return get();
  } catch {
    issues.add(place, "can't be read, because reading it throws an exception");
    return undefined;
  }
}
