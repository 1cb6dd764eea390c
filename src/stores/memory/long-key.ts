/**
 * Long keys are kept as a tag of fixed length, so that a store's memory is bounded by its count of
 * keys and not by what a client writes into a header. The tag is SipHash-2-4 of 128 bits under a key
 * drawn once per process: nobody outside can make two long keys meet.
 */

/** Keys up to this length are kept as they are. */
const LONGEST = 128;

let secret: Uint32Array | undefined;

/** The key itself when it is short, else its tag. */
export function storedKey(key: string): string {
  if (key.length <= LONGEST) return key;
  // Drawn at first use: some runtimes give no random numbers while a module loads.
  secret ??= crypto.getRandomValues(new Uint32Array(4));
  return sipHash128(key, secret);
}

/** The four 64-bit words of SipHash, each as a low and a high half. */
type State = Int32Array;

/** SipHash-2-4 with 128 bits of output over the UTF-16 units of `text`, in hexadecimal. */
export function sipHash128(text: string, key: Uint32Array): string {
  const [k0, k1, k2, k3] = key as unknown as [number, number, number, number];
  const v: State = Int32Array.of(
    k0 ^ 0x70736575,
    k1 ^ 0x736f6d65,
    k2 ^ 0x6e646f6d ^ 0xee,
    k3 ^ 0x646f7261,
    k0 ^ 0x6e657261,
    k1 ^ 0x6c796765,
    k2 ^ 0x79746573,
    k3 ^ 0x74656462,
  );
  const unit = (i: number) => (i < text.length ? text.charCodeAt(i) : 0);
  const whole = text.length - (text.length % 4);
  for (let i = 0; i < whole; i += 4) absorb(v, unit(i) | (unit(i + 1) << 16), unit(i + 2) | (unit(i + 3) << 16));
  const length = (text.length * 2) & 0xff;
  absorb(v, unit(whole) | (unit(whole + 1) << 16), unit(whole + 2) | (length << 24));
  v[4] = at(v, 4) ^ 0xee;
  rounds(v, 4);
  const first = output(v);
  v[2] = at(v, 2) ^ 0xdd;
  rounds(v, 4);
  return first + output(v);
}

function at(v: State, i: number): number {
  return v[i] as number;
}

function absorb(v: State, low: number, high: number): void {
  v[6] = at(v, 6) ^ low;
  v[7] = at(v, 7) ^ high;
  rounds(v, 2);
  v[0] = at(v, 0) ^ low;
  v[1] = at(v, 1) ^ high;
}

function rounds(v: State, count: number): void {
  for (let i = 0; i < count; i++) {
    mix(v, 0, 2, 13);
    swap(v, 0);
    mix(v, 4, 6, 16);
    mix(v, 0, 6, 21);
    mix(v, 4, 2, 17);
    swap(v, 4);
  }
}

/** v[a] += v[b]; v[b] = rotate(v[b], by) ^ v[a] */
function mix(v: State, a: number, b: number, by: number): void {
  const low = (at(v, a) >>> 0) + (at(v, b) >>> 0);
  v[a + 1] = at(v, a + 1) + at(v, b + 1) + (low > 0xffffffff ? 1 : 0);
  v[a] = low;
  const [bLow, bHigh] = [at(v, b), at(v, b + 1)];
  v[b] = ((bLow << by) | (bHigh >>> (32 - by))) ^ at(v, a);
  v[b + 1] = ((bHigh << by) | (bLow >>> (32 - by))) ^ at(v, a + 1);
}

/** Rotates a word by 32 bits. */
function swap(v: State, a: number): void {
  [v[a], v[a + 1]] = [at(v, a + 1), at(v, a)];
}

function output(v: State): string {
  const low = at(v, 0) ^ at(v, 2) ^ at(v, 4) ^ at(v, 6);
  const high = at(v, 1) ^ at(v, 3) ^ at(v, 5) ^ at(v, 7);
  return hex(high) + hex(low);
}

function hex(word: number): string {
  return (word >>> 0).toString(16).padStart(8, "0");
}
