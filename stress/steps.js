/** The length of a stress test: SLUICE_STEPS, a tenth of the full length in CI, or the full length. */
export function stepsOf(/** @type {number} */ full) {
  return Number(process.env.SLUICE_STEPS ?? (process.env.CI ? full / 10 : full));
}
