/** Keys as bytes, for hashing. */

/** The UTF-16 units of a key. UTF-8 would encode all lone surrogates alike. */
export function utf16Bytes(key: string): Uint8Array {
  const bytes = new Uint8Array(key.length * 2);
  for (let i = 0; i < key.length; i++) {
    bytes[2 * i] = key.charCodeAt(i) & 0xff;
    bytes[2 * i + 1] = key.charCodeAt(i) >> 8;
  }
  return bytes;
}
