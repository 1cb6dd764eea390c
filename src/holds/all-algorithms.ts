/** All algorithms by name, for policies as data: those of rules files, and those that are sent elsewhere. */

import type { Algorithm } from "../core/compiled-policy.ts";
import type { AlgorithmName } from "../core/policy.ts";
import { penalty } from "../penalties/penalty-algorithm.ts";
import { rates } from "../policy/rates.ts";
import { concurrency } from "./concurrency-algorithm.ts";

/** All algorithms, by the name that a policy has. Not a spread, which bundlers keep as a side effect. */
export const algorithms: Readonly<Record<AlgorithmName, Algorithm>> = /* @__PURE__ */ Object.assign({}, rates, {
  concurrency,
  penalty,
});
