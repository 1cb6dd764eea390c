/** One name, one policy: two policies under one name on one store would spend each other's budget. */
import { SluiceError } from "../core/errors.ts";
import { originOf, type Store } from "../core/store.ts";
import type { Terms } from "../core/terms.ts";

/** A policy that has a name, and the limiters that use it. */
interface Holder {
  readonly terms: Terms;
  limiters: number;
}

const claims = new WeakMap<object, Map<string, Holder[]>>();

/** Gives a name on a store to a policy, or refuses it when another policy has it. */
export function claimName(store: Store, terms: Terms): void {
  let names = claims.get(originOf(store));
  if (!names) claims.set(originOf(store), (names = new Map()));
  const holders = names.get(terms.label) ?? [];
  const same = holders.find((holder) => samePolicy(holder.terms, terms));
  if (same) {
    same.limiters++;
    return;
  }
  for (const { terms: other } of holders) {
    if (other.share && terms.share && other.algorithm === terms.algorithm) continue;
    const expected = "a name that no other policy on this store has, or share: true on every plan of one algorithm";
    throw new SluiceError("policy-conflict", "name", expected, terms.name);
  }
  names.set(terms.label, [...holders, { terms, limiters: 1 }]);
}

/** Frees the name with its last limiter: a policy with other numbers may take it and go on with its state. */
export function releaseName(store: Store, terms: Terms): void {
  const names = claims.get(originOf(store));
  const holders = names?.get(terms.label) ?? [];
  const holder = holders.find((holder) => samePolicy(holder.terms, terms));
  if (holder && --holder.limiters === 0)
    names?.set(
      terms.label,
      holders.filter((other) => other !== holder),
    );
}

/** Whether two policies count alike. */
export function samePolicy(a: Terms, b: Terms): boolean {
  return a.bucket === b.bucket && a.limit === b.limit && a.windowMs === b.windowMs && a.p === b.p && a.unit === b.unit;
}
