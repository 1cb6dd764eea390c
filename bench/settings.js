/** How long and how often things are measured, and how the environment changes it. */

function positive(name, fallback) {
  const value = Number(process.env[name] ?? fallback);
  if (value > 0) return value;
  throw new Error(`${name} must be a number above 0, not ${process.env[name]}`);
}

/** Repeats of each measurement. */
export const repeats = positive("BENCH_REPEATS", 7);
/** The length of one measurement of throughput, and of the warm-up before it. */
export const ms = positive("BENCH_MS", 300);
const scale = positive("BENCH_SCALE", 1);

/** A count of keys; BENCH_SCALE makes it smaller, to try the scripts out. */
export function scaled(count) {
  return Math.max(1000, Math.round(count * scale));
}

/** The settings that differ from the defaults, as they stand before a command. */
export function changedSettings() {
  const names = ["BENCH_REPEATS", "BENCH_MS", "BENCH_SCALE"].filter((name) => process.env[name] !== undefined);
  return names.map((name) => `${name}=${process.env[name]} `).join("");
}
