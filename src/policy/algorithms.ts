/** All algorithms by name, for policies as data: those of rules files, and those that are sent elsewhere. */

import { concurrency } from "../holds/concurrency-algorithm.ts";
import { penalty } from "../penalties/penalty-algorithm.ts";
import type { Algorithm } from "../core/compiled-policy.ts";
import type { AlgorithmName } from "../core/policy.ts";
import { rates } from "./rates.ts";

/** All algorithms, by the name that a policy has. Not a spread, which bundlers keep as a side effect. */
export const algorithms: Readonly<Record<AlgorithmName, Algorithm>> = /* @__PURE__ */ Object.assign({}, rates, {
  concurrency,
  penalty,
});
