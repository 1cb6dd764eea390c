/** Copies of strings that came from a request, for everything that outlives the request. */

/**
 * Copies a key before it is kept. A string cut out of a header or URL can be a slice that retains the whole text it was
 * cut from (V8 sliced strings and ropes). The name of a property is always a flat string of its own, with lone
 * surrogates intact. V8 also makes later lookups with `key` itself as cheap as before, which a copy through JSON does
 * not: it compares every character.
 */
export function copyKey(key: string): string {
  const named: Record<string, true> = Object.create(null);
  named[key] = true;
  return Object.keys(named)[0] as string;
}
