/** Policies that are sent to another process as JSON, which can't contain an algorithm. */
import { concurrency } from "../dist/index.js";

/** The policy of its JSON form, which may name a concurrency limit. */
export function policyFrom(/** @type {any} */ policy) {
  const { algorithm, limit, ...options } = policy;
  return algorithm === "concurrency" ? concurrency(limit, options) : policy;
}
