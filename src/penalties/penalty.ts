/** Creates penalty policies, which bring their algorithm. */

import type { PenaltyPolicy } from "../core/policy.ts";
import { type Bare, plain } from "../policy/shorthand.ts";
import { penalty as algorithm } from "./penalty-algorithm.ts";

const OPTIONS = ["strikes", "blockMs", "factor", "maxBlockMs", "forgetMs"];

/** Creates a penalty policy: `penalty({ strikes: 3, blockMs: "1m" })` blocks a key from its third strike on. */
export function penalty(policy: Bare<PenaltyPolicy>): PenaltyPolicy {
  return { ...plain(policy, undefined, "penalty", OPTIONS), algorithm };
}
