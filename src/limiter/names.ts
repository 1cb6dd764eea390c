/** One name, one policy: two policies under one name on one store would spend each other's budget. */
import { SluiceError } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import type { Terms } from "../core/terms.ts";

const claims = new WeakMap<Store, Set<Terms>>();

/** Gives a name on a store to a policy until it is released, or refuses it when another policy has it. */
export function claimName(store: Store, terms: Terms): void {
  let holders = claims.get(store);
  if (!holders) claims.set(store, (holders = new Set()));
  for (const holder of holders) {
    if (holder.label !== terms.label || samePolicy(holder, terms)) continue;
    if (holder.share && terms.share && holder.algorithm === terms.algorithm) continue;
    const expected = "a name that no other policy on this store has, or share: true on every plan of one algorithm";
    throw new SluiceError("policy-conflict", "name", expected, terms.name);
  }
  holders.add(terms);
}

/** Frees the name again: a policy with other numbers may take it and go on with its state. */
export function releaseName(store: Store, terms: Terms): void {
  claims.get(store)?.delete(terms);
}

/** Whether two policies count alike. */
export function samePolicy(a: Terms, b: Terms): boolean {
  return a.bucket === b.bucket && a.limit === b.limit && a.windowMs === b.windowMs && a.p === b.p && a.unit === b.unit;
}
