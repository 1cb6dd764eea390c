/** A short hash of text, for versions and names. It is not secret. */

/** FNV-1a over the UTF-16 units of texts that are added one after the other. */
export class HexHash {
  private hash = 0x811c9dc5;

  add(text: string): void {
    let { hash } = this;
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
    this.hash = hash;
  }

  /** 8 hex digits. */
  get digits(): string {
    return (this.hash >>> 0).toString(16).padStart(8, "0");
  }
}

/** The hash of one text, as 8 hex digits. */
export function hexHash(text: string): string {
  const hash = new HexHash();
  hash.add(text);
  return hash.digits;
}
