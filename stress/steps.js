import { scale } from "../scripts/scale.js";

/** The length of a stress test, multiplied by SLUICE_SCALE. By default a tenth in CI. */
export function stepsOf(/** @type {number} */ full) {
  return Math.round(full * scale(process.env.CI ? 0.1 : 1));
}

/** The environment of a test that is to run `steps` where it runs `usual` by default. */
export function withSteps(/** @type {number} */ steps, /** @type {number} */ usual) {
  return { ...process.env, SLUICE_SCALE: String(steps / usual), NO_COLOR: "1" };
}
