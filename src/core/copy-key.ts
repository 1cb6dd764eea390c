/** Copies of strings that came from a request, for everything that outlives the request. */

/**
 * Copies a key before it is kept. A string cut out of a header or URL can be a slice that retains the whole text it was
 * cut from (V8 sliced strings and ropes). JSON keeps lone surrogates, which an encoder would replace.
 */
export function copyKey(key: string): string {
  return JSON.parse(JSON.stringify(key)) as string;
}
