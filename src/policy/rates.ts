/** The algorithms with a rate by name: those that policies in code name, and policy text. Others are brought by a policy. */

import { fixedWindow } from "../algorithms/fixed-window.ts";
import { leakyBucket } from "../algorithms/leaky-bucket.ts";
import { slidingLog } from "../algorithms/sliding-log.ts";
import { slidingWindow } from "../algorithms/sliding-window.ts";
import { tokenBucket } from "../algorithms/token-bucket.ts";
import type { Algorithm } from "../core/compiled-policy.ts";
import type { AlgorithmName } from "../core/policy.ts";

/** Algorithms by the name that a policy has. */
export type Algorithms = Readonly<Record<string, Algorithm>>;

/** The algorithms with a rate. */
export const rates: Readonly<Record<Exclude<AlgorithmName, "concurrency" | "penalty">, Algorithm>> = {
  "token-bucket": tokenBucket,
  "leaky-bucket": leakyBucket,
  "fixed-window": fixedWindow,
  "sliding-window": slidingWindow,
  "sliding-log": slidingLog,
};
