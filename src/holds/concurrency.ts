/** Creates concurrency policies, which bring their algorithm. */

import { checkOptions } from "../base/options.ts";
import type { Duration } from "../base/rate.ts";
import type { ConcurrencyPolicy } from "../core/policy.ts";
import { LABELS, type LabelOptions } from "../policy/shorthand.ts";
import { concurrency as algorithm } from "./concurrency-algorithm.ts";

/** Options beside the limit of a concurrency policy. */
export interface LeaseOptions extends LabelOptions {
  /** How long a hold lasts unless it is renewed: 1 ms to 1 d, or text such as `"30s"`. Default: 60 000. */
  leaseMs?: Duration;
  /** Maximum number of holds of one key: 1 to 1000. Default: the limit, but from 200 to 1000. */
  maxHolds?: number;
}

/** Creates a concurrency policy: `concurrency(5, { leaseMs: "30s" })` allows five holds at once. */
export function concurrency(limit: number, options: LeaseOptions = {}): ConcurrencyPolicy {
  checkOptions("concurrency", options, ["leaseMs", "maxHolds", ...LABELS]);
  return { algorithm, limit, ...options };
}
