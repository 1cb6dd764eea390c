/** The cost that each key uses in its active time bins, and the key that a policy is sized for. */
import type { Traffic } from "./recorded-traffic.ts";

/** One key's cost per active bin. A bin is active if the key used some cost in it. */
export interface KeyRate {
  /** Index of the key in the traffic. */
  readonly id: number;
  readonly requests: number;
  readonly activeBins: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

/** Measures all keys, sorted by p99. Keys whose requests are all free are left out. */
export function keyRates({ keys, starts, times, costs }: Traffic, binMs: number): KeyRate[] {
  const rates: KeyRate[] = [];
  let bins = new Float64Array(1024);
  for (let id = 0; id < keys.length; id++) {
    const [from, to] = [starts[id] as number, starts[id + 1] as number];
    if (bins.length < to - from) bins = new Float64Array(2 * (to - from));
    let activeBins = 0;
    let lastBin = Number.NaN;
    for (let i = from; i < to; i++) {
      const cost = costs[i] as number;
      if (cost === 0) continue;
      const bin = Math.floor((times[i] as number) / binMs);
      if (bin !== lastBin) bins[activeBins++] = 0;
      lastBin = bin;
      bins[activeBins - 1] = (bins[activeBins - 1] as number) + cost;
    }
    if (activeBins === 0) continue;
    const sorted = bins.subarray(0, activeBins).sort();
    const [p50, p99, max] = [quantile(sorted, 0.5), quantile(sorted, 0.99), quantile(sorted, 1)];
    rates.push({ id, requests: to - from, activeBins, p50, p99, max });
  }
  // By name at last, so that the order of the samples makes no difference.
  const byName = (a: KeyRate, b: KeyRate) => ((keys[a.id] as string) < (keys[b.id] as string) ? -1 : 1);
  return rates.sort(
    (a, b) => a.p99 - b.p99 || a.max - b.max || a.requests - b.requests || a.p50 - b.p50 || byName(a, b),
  );
}

/** The nearest-rank quantile of a sorted list: the smallest value that a share `q` of the list does not exceed. */
function quantile<T>(sorted: ArrayLike<T>, q: number): T {
  return sorted[rankOf(q, sorted.length)] as T;
}

/** Index of the nearest rank. Without the tolerance, rounding would make 0.07 of 100 the 8th. */
export function rankOf(q: number, length: number): number {
  return Math.max(0, Math.ceil(q * length - 1e-9) - 1);
}
