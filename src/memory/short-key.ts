/**
 * Shortens long keys to a tag of fixed length, so that the number of keys bounds a store's memory, and not what clients
 * send in headers. The tag is HalfSipHash-2-4 under two random keys of this process, 128 bits in all, so clients can't
 * create collisions.
 */

/** Shorter keys are kept as they are. */
const MAX_KEY_CHARS = 128;

let secret: Int32Array | undefined;

/** The key itself if it is short, otherwise its tag. */
export function shortKey(key: string): string {
  return key.length <= MAX_KEY_CHARS ? key : tagOf(key);
}

function tagOf(key: string): string {
  // On first use: some runtimes have no random numbers while a module loads.
  secret ??= crypto.getRandomValues(new Int32Array(4));
  const [a, b, c, d] = secret as unknown as [number, number, number, number];
  return halfSipHash(key, a, b) + halfSipHash(key, c, d);
}

/** HalfSipHash-2-4 with 64 bits of output over the UTF-16 units of `text`, in hexadecimal. */
export function halfSipHash(text: string, k0: number, k1: number): string {
  let [v0, v1, v2, v3] = [k0, k1 ^ 0xee, k0 ^ 0x6c796765, k1 ^ 0x74656462];
  const rounds = (count: number): void => {
    for (let i = 0; i < count; i++) {
      v0 = (v0 + v1) | 0;
      v1 = rotate(v1, 5) ^ v0;
      v0 = rotate(v0, 16);
      v2 = (v2 + v3) | 0;
      v3 = rotate(v3, 8) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = rotate(v3, 7) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = rotate(v1, 13) ^ v2;
      v2 = rotate(v2, 16);
    }
  };
  const { length } = text;
  for (let i = 0; i <= length; i += 2) {
    // The last block contains the remaining unit, if any, and the length in bytes.
    const whole = i + 1 < length;
    const block = (i < length ? text.charCodeAt(i) : 0) | (whole ? text.charCodeAt(i + 1) << 16 : length << 25);
    v3 ^= block;
    rounds(2);
    v0 ^= block;
  }
  v2 ^= 0xee;
  rounds(4);
  const first = v1 ^ v3;
  v1 ^= 0xdd;
  rounds(4);
  return hex(first) + hex(v1 ^ v3);
}

function rotate(word: number, by: number): number {
  return (word << by) | (word >>> (32 - by));
}

function hex(word: number): string {
  return (word >>> 0).toString(16).padStart(8, "0");
}
