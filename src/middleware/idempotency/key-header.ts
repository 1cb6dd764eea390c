/** Parses the header with the key: a String of structured fields (RFC 9651), or the bare text that most clients send. */

const MAX_KEY_CHARS = 255;
/** The longest valid field: every character is escaped. */
const MAX_FIELD_CHARS = 2 * MAX_KEY_CHARS + 2;

/**
 * Printable ASCII without spaces. Several header lines are joined with a comma and a space, so no form can contain them.
 * Bare text also has no quotes, backslashes, commas and semicolons, which separate and quote in structured fields.
 */
const BARE = /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+$/;
const QUOTED = /^"((?:[\x21\x23-\x5b\x5d-\x7e]|\\["\\])+)"$/;

/** Returns the key; `undefined` if the field is malformed. */
export function parseKey(field: string): string | undefined {
  if (field.length > MAX_FIELD_CHARS) return undefined;
  const key = BARE.test(field) ? field : QUOTED.exec(field)?.[1]?.replace(/\\(["\\])/g, "$1");
  return key !== undefined && key.length <= MAX_KEY_CHARS ? key : undefined;
}
