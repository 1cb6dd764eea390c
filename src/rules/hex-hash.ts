/** A short hash of text, for versions and names. It is not secret. */

/** FNV-1a over the UTF-16 units of the text, as 8 hex digits. */
export function hexHash(text: string): string {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}
