/** The algorithms by name. */
import type { AlgorithmName } from "../core/policy.ts";
import type { Algorithm } from "./algorithm.ts";
import { concurrency } from "./concurrency.ts";
import { fixedWindow } from "./fixed-window.ts";
import { leakyBucket } from "./leaky-bucket.ts";
import { penalty } from "./penalty.ts";
import { slidingLog } from "./sliding-log.ts";
import { slidingWindow } from "./sliding-window.ts";
import { tokenBucket } from "./token-bucket.ts";

/** The algorithms, by the name that a policy has. */
export const algorithms: Readonly<Record<AlgorithmName, Algorithm>> = {
  "token-bucket": tokenBucket,
  "leaky-bucket": leakyBucket,
  "fixed-window": fixedWindow,
  "sliding-window": slidingWindow,
  "sliding-log": slidingLog,
  concurrency,
  penalty,
};
