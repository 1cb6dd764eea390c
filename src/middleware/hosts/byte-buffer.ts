/** Collects chunks of a body up to a size. */
export class ByteBuffer {
  /** The bytes so far. */
  length = 0;
  private readonly maxBytes: number;
  private chunks: Uint8Array[] = [];

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** Adds a chunk. Returns false if the body has become too long. */
  add(chunk: Uint8Array): boolean {
    this.length += chunk.byteLength;
    const fits = this.length <= this.maxBytes;
    // A copy: the buffer may be used again, or transferred.
    if (fits) this.chunks.push(new Uint8Array(chunk));
    else this.chunks = [];
    return fits;
  }

  /** The chunks as one array. */
  bytes(): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(this.length);
    let at = 0;
    for (const chunk of this.chunks) {
      bytes.set(chunk, at);
      at += chunk.byteLength;
    }
    return bytes;
  }
}
