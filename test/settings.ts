/** Length and seed of the random tests, from environment variables. */
import { scaled } from "../scripts/scale.js";

/** Total number of steps of all walks, at least 100 000. Default: 1 000 000, multiplied by SLUICE_SCALE. */
export const STEPS: number = scaled(1_000_000, 100_000);
/** Seed of every random choice. Set by SLUICE_SEED. Default: random. A failure prints it. */
export const SEED: number = setting("SLUICE_SEED", Math.floor(Math.random() * 2 ** 31));

function setting(name: string, fallback: number): number {
  const text = process.env[name];
  if (text === undefined) return fallback;
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new Error(`${name} must be a whole number, but received ${text}`);
  return value;
}
