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
  if (holder && !same(holder, terms) && !(holder.share && terms.share && holder.algorithm === terms.algorithm)) {
    throw new SluiceError({
      code: "policy-conflict",
      option: "name",
      received: terms.name,
      expected: "a name that no other policy on this store has, or share: true on every plan of one algorithm",
    });
  }
  names.set(terms.bucket, terms);
}

function same(a: Terms, b: Terms): boolean {
  return a.algorithm === b.algorithm && a.limit === b.limit && a.windowMs === b.windowMs && a.p === b.p && a.q === b.q;
}
