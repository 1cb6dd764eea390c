/** The keys and their order, the same for every contender. */

const LENGTH = 15;

/** A flat copy of a string, as a parser returns it. The first read of a concatenated string would flatten it. */
export function flat(text) {
  return Buffer.from(text, "latin1").latin1Slice();
}

/** Returns a function that builds key `i`, such as `user:0000000001`, as a new flat string. */
export function freshKeys(count) {
  const bytes = Buffer.alloc(count * LENGTH);
  for (let i = 0; i < count; i++) bytes.latin1Write(`user:${String(i).padStart(10, "0")}`, i * LENGTH);
  return (i) => bytes.latin1Slice(i * LENGTH, (i + 1) * LENGTH);
}

/** A seeded generator (mulberry32): every contender gets the same draws. */
export function seededRandom(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** `draws` numbers below `count`, uniformly distributed. */
export function uniformOrder(count, draws) {
  const random = seededRandom(1);
  return Uint32Array.from({ length: draws }, () => Math.floor(random() * count));
}

/** `draws` numbers below `count` with a Zipf distribution: rank r has weight 1/r. Ranks are shuffled. */
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
