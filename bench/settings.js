/** Repeats, duration and size of the measurements, from environment variables. */

function positive(name, fallback) {
  const value = Number(process.env[name] ?? fallback);
  if (value > 0) return value;
  throw new Error(`${name} must be a number > 0, but received ${process.env[name]}`);
}

/** Repeats of each measurement. */
export const repeats = positive("BENCH_REPEATS", 7);
/** Duration of one throughput measurement in ms, and of its warm-up. */
export const ms = positive("BENCH_MS", 300);
const scale = positive("BENCH_SCALE", 1);

/** A number of keys, multiplied by BENCH_SCALE to try the scripts quickly. */
export function scaled(count) {
  return Math.max(1000, Math.round(count * scale));
}

/** The settings that differ from the defaults, as the prefix of a command. */
export function changedSettings() {
  const names = ["BENCH_REPEATS", "BENCH_MS", "BENCH_SCALE", "BENCH_OLD_DIST"].filter(
    (name) => process.env[name] !== undefined,
  );
  return names.map((name) => `${name}=${process.env[name]} `).join("");
}
