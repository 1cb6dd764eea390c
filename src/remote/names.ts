/** One name, one policy: two policies with one name on one store would spend each other's budget. */

import { SluiceError } from "../base/errors.ts";
import { shared } from "../base/shared-state.ts";
import type { Steps } from "../base/slices.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import { originOf, type Store } from "../core/store.ts";

/** The limiters that use one policy. */
interface Claim {
  readonly policy: CompiledPolicy;
  limiters: number;
}

/** Per store and qualified name: the claims by fingerprint. Several claims are plans that share the name. */
const claims = /* @__PURE__ */ shared("claims", () => new WeakMap<object, Map<string, Map<string, Claim>>>());

/** Claims a name on a store. Throws if another policy has it and the two can't share their buckets. */
export function claimName(store: Store, policy: CompiledPolicy): void {
  let names = claims.get(originOf(store));
  if (!names) claims.set(originOf(store), (names = new Map()));
  let plans = names.get(policy.qualifiedName);
  if (!plans) names.set(policy.qualifiedName, (plans = new Map()));
  const same = plans.get(policy.fingerprint);
  if (same) {
    same.limiters++;
    return;
  }
  // All plans can share with each other, so comparing with one of them is enough.
  const [other] = plans.values();
  if (other) checkShare(other.policy, policy);
  plans.set(policy.fingerprint, { policy, limiters: 1 });
}

/** Releases a name with its last limiter. Another policy may then claim it. */
export function releaseName(store: Store, policy: CompiledPolicy): void {
  const names = claims.get(originOf(store));
  const plans = names?.get(policy.qualifiedName);
  const claim = plans?.get(policy.fingerprint);
  if (!names || !plans || !claim || --claim.limiters > 0) return;
  plans.delete(policy.fingerprint);
  if (plans.size === 0) names.delete(policy.qualifiedName);
}

/** Names that are replaced in one step. */
const NAMES_PER_STEP = 500;

/**
 * Releases names and claims others: if one of them can't be claimed, nothing changes. A name that is released and claimed
 * is never free in between.
 */
export function* replaceNames(
  store: Store,
  released: readonly CompiledPolicy[],
  claimed: readonly CompiledPolicy[],
): Steps<void> {
  const old = new Map<string, CompiledPolicy>();
  for (const [i, policy] of released.entries()) {
    old.set(policy.qualifiedName, policy);
    if (i % NAMES_PER_STEP === NAMES_PER_STEP - 1) yield;
  }
  const done: (readonly [before: CompiledPolicy | undefined, after: CompiledPolicy])[] = [];
  try {
    for (const policy of claimed) {
      const before = old.get(policy.qualifiedName);
      replaceName(store, before, policy);
      old.delete(policy.qualifiedName);
      done.push([before, policy]);
      if (done.length % NAMES_PER_STEP === 0) yield;
    }
  } catch (error) {
    for (const [before, after] of done.reverse()) {
      releaseName(store, after);
      if (before) claimName(store, before);
    }
    throw error;
  }
  let left = 0;
  for (const policy of old.values()) {
    releaseName(store, policy);
    if (++left % NAMES_PER_STEP === 0) yield;
  }
}

function replaceName(store: Store, before: CompiledPolicy | undefined, after: CompiledPolicy): void {
  if (before) releaseName(store, before);
  try {
    claimName(store, after);
  } catch (error) {
    if (before) claimName(store, before);
    throw error;
  }
}

/** Throws if two policies with one name are not plans of one product. */
function checkShare(other: CompiledPolicy, policy: CompiledPolicy): void {
  const { name } = policy;
  if (!other.share || !policy.share) {
    throw new SluiceError(
      "policy-conflict",
      `Another policy on this store is named "${name}". Use another name, or set share: true on every plan with this name.`,
      { option: "name", expected: "a name that no other policy on this store has", received: name },
    );
  }
  if (other.id === policy.id) return;
  const message =
    other.algorithm.name === policy.algorithm.name
      ? `Plans that share "${name}" must have one window or fill time, but have ${timeOf(other)} and ${timeOf(policy)}. Scale the limit and keep the window, or scale capacity and rate together, or use two names.`
      : `Plans that share "${name}" must have one algorithm, but have ${other.algorithm.name} and ${policy.algorithm.name}. Use one algorithm or two names.`;
  const expected = "plans with one algorithm and one window or fill time";
  throw new SluiceError("policy-conflict", message, { option: "share", expected, received: name });
}

function timeOf({ windowMs, limit, refills, resolved }: CompiledPolicy): string {
  return refills ? `${windowMs} ms (${limit} at ${resolved.tokensPerSecond}/s)` : `${windowMs} ms`;
}
