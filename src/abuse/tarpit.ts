/** Tarpit: delays responses to blocked keys, which makes attempts slower and costs little here. */
import { optionError, SluiceError } from "../base/errors.ts";
import { checkOptions, checkWhole } from "../base/options.ts";
import { parseDuration } from "../base/rate.ts";
import { runsOnWorkers } from "../http/identity/presets.ts";
import type { TarpitOptions } from "./options.ts";

const MAX_DELAY_MS = 60_000;
const MAX_DELAYED = 100_000;

/** Delays responses; `undefined` if too many are delayed already. */
export type Tarpit = () => Promise<void> | undefined;

/** Validates the options, and creates the tarpit of this process. */
export function createTarpit(options: TarpitOptions): Tarpit {
  checkOptions("tarpit", options, ["delay", "max"]);
  if (runsOnWorkers()) {
    const message = "tarpit: not supported on Workers, which bill the delay.";
    throw new SluiceError("unsupported", message, { option: "tarpit", expected: "no tarpit on Workers" });
  }
  const { delay, max } = options;
  if (delay === undefined) throw optionError("invalid-option", "tarpit.delay", 'a duration such as "2s"', delay);
  const delayMs = checkWhole("tarpit.delay", parseDuration("tarpit.delay", delay), 1, MAX_DELAY_MS);
  checkWhole("tarpit.max", max, 1, MAX_DELAYED);
  let delayed = 0;
  return () => {
    if (delayed >= max) return undefined;
    delayed++;
    return new Promise((resolve) => {
      setTimeout(() => {
        delayed--;
        resolve();
      }, delayMs);
    });
  };
}
