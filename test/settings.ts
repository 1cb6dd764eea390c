/** Length and seed of the random tests, from environment variables. */

/** Total number of steps of all walks. Set by SLUICE_STEPS, at least 100 000. Default: 1 000 000. */
export const STEPS: number = setting("SLUICE_STEPS", 1_000_000);
/** Seed of every random choice. Set by SLUICE_SEED. Default: random. A failure prints it. */
export const SEED: number = setting("SLUICE_SEED", Math.floor(Math.random() * 2 ** 31));

function setting(name: string, fallback: number): number {
  const text = process.env[name];
  if (text === undefined) return fallback;
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new Error(`${name} must be a whole number, but received ${text}`);
  return value;
}
