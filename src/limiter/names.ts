/** One name, one policy: two policies under one name on one store would spend each other's budget. */
import { SluiceError } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import type { Terms } from "../core/terms.ts";

const claims = new WeakMap<Store, Map<string, Terms>>();

/** Gives a name on a store to a policy, or refuses it when another policy has it. */
export function claimName(store: Store, terms: Terms): void {
  let names = claims.get(store);
  if (!names) claims.set(store, (names = new Map()));
  const holder = names.get(terms.bucket);
  if (holder && !samePolicy(holder, terms) && !(holder.share && terms.share && holder.algorithm === terms.algorithm)) {
    throw new SluiceError(
      "policy-conflict",
      "name",
      "a name that no other policy on this store has, or share: true on every plan of one algorithm",
      terms.name,
    );
  }
  names.set(terms.bucket, terms);
}

/** Whether two policies count alike. */
export function samePolicy(a: Terms, b: Terms): boolean {
  return (
    a.algorithm === b.algorithm && a.limit === b.limit && a.windowMs === b.windowMs && a.p === b.p && a.unit === b.unit
  );
}
