/** One name, one policy: two policies under one name on one store would spend each other's budget. */

import type { CompiledPolicy } from "../core/compile.ts";
import { optionError } from "../core/errors.ts";
import { originOf, type Store } from "../core/store.ts";

/** Limiters that use one policy under a name. */
interface Holder {
  readonly policy: CompiledPolicy;
  limiters: number;
}

/** Per store and label: the policies that hold the name, by their numbers. Several of them are plans that share it. */
const claims = new WeakMap<object, Map<string, Map<string, Holder>>>();

/** Claims a name on a store for a policy. Throws if another policy holds it and the two can't share their buckets. */
export function claimName(store: Store, policy: CompiledPolicy): void {
  let names = claims.get(originOf(store));
  if (!names) claims.set(originOf(store), (names = new Map()));
  let holders = names.get(policy.qualifiedName);
  if (!holders) names.set(policy.qualifiedName, (holders = new Map()));
  const same = holders.get(numbersOf(policy));
  if (same) {
    same.limiters++;
    return;
  }
  // All holders can share with each other, so any one of them stands for the rest.
  const [other] = holders.values();
  if (other) checkShare(other.policy, policy);
  holders.set(numbersOf(policy), { policy, limiters: 1 });
}

/** Releases a name with its last limiter. Another policy may then claim it. */
export function releaseName(store: Store, policy: CompiledPolicy): void {
  const names = claims.get(originOf(store));
  const holders = names?.get(policy.qualifiedName);
  const holder = holders?.get(numbersOf(policy));
  if (!names || !holders || !holder || --holder.limiters > 0) return;
  holders.delete(numbersOf(policy));
  if (holders.size === 0) names.delete(policy.qualifiedName);
}

/** Refuses two policies under one name that are not plans of one product. */
function checkShare(held: CompiledPolicy, policy: CompiledPolicy): void {
  if (!held.share || !policy.share) {
    const expected = "a name that no other policy on this store has, or share: true on every plan that uses it";
    throw optionError("policy-conflict", "name", expected, policy.name);
  }
  if (held.id === policy.id) return;
  const expected =
    held.algorithm === policy.algorithm
      ? `plans with one window or fill time (${timeOf(held)} and ${timeOf(policy)} here): scale the limit and keep the window, or scale capacity and rate together; or give the plans two names`
      : `plans of one algorithm (${held.algorithm} and ${policy.algorithm} here), or two names`;
  throw optionError("policy-conflict", "share", expected, policy.name);
}

function timeOf({ windowMs, limit, refills, resolved }: CompiledPolicy): string {
  return refills ? `${windowMs} ms for ${limit} at ${resolved.tokensPerSecond}/s` : `${windowMs} ms`;
}

/** Whether two policies count alike. */
export function samePolicy(a: CompiledPolicy, b: CompiledPolicy): boolean {
  return (
    a.id === b.id &&
    a.limit === b.limit &&
    a.windowMs === b.windowMs &&
    a.unitsPerMs === b.unitsPerMs &&
    a.unitsPerToken === b.unitsPerToken
  );
}

function numbersOf({ id, limit, windowMs, unitsPerMs, unitsPerToken }: CompiledPolicy): string {
  return `${limit} ${windowMs} ${unitsPerMs} ${unitsPerToken} ${id}`;
}
