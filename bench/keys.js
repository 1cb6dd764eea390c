/** Keys and the order in which they are asked: the same for every contender. */

const LENGTH = 15;

/** The same text in one piece, as a parser hands it out; a joined string would be flattened by its first reader. */
export function flat(text) {
  return Buffer.from(text, "latin1").latin1Slice();
}

/** Keys from `user:0000000000` on: a function that gives a newly built, flat string at every call. */
export function freshKeys(count) {
  const bytes = Buffer.alloc(count * LENGTH);
  for (let i = 0; i < count; i++) bytes.latin1Write(`user:${String(i).padStart(10, "0")}`, i * LENGTH);
  return (i) => bytes.latin1Slice(i * LENGTH, (i + 1) * LENGTH);
}

/** A seeded generator (mulberry32), so that every contender gets the same draws. */
export function seededRandom(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** `draws` numbers below `count`, each as likely. */
export function uniformOrder(count, draws) {
  const random = seededRandom(1);
  return Uint32Array.from({ length: draws }, () => Math.floor(random() * count));
}

/** `draws` numbers below `count`, the one of rank r as likely as 1/r; ranks are spread over the numbers at random. */
export function zipfOrder(count, draws) {
  const random = seededRandom(1);
  const sums = new Float64Array(count);
  for (let i = 0, sum = 0; i < count; i++) sums[i] = sum += 1 / (i + 1);
  const numberOf = Uint32Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [numberOf[i], numberOf[j]] = [numberOf[j], numberOf[i]];
  }
  return Uint32Array.from({ length: draws }, () => numberOf[firstAbove(sums, random() * sums[count - 1])]);
}

function firstAbove(sums, target) {
  let low = 0;
  for (let high = sums.length - 1; low < high; ) {
    const middle = (low + high) >>> 1;
    if (sums[middle] > target) high = middle;
    else low = middle + 1;
  }
  return low;
}
