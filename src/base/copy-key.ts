/** Copies strings of a request that outlive the request. */

/**
 * Copies a key before it is kept. A substring of a header or URL can be a slice that retains the whole text (V8 sliced
 * strings and ropes). A property name is always a flat string of its own, with lone surrogates intact. Lookups with `key`
 * itself stay as fast as before in V8; with a copy made through JSON they would compare every character.
 */
export function copyKey(key: string): string {
  const named: Record<string, true> = Object.create(null);
  named[key] = true;
  return Object.keys(named)[0] as string;
}
