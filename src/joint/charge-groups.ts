/**
 * Applies the charges of one request: one group that is enforced, and further groups that are only counted, such as
 * limits in shadow mode. In one shard of a store that is one call.
 */

import { andThen, type MaybePromise } from "../base/maybe-promise.ts";
import type { Act, Engine, PartCharge, PartGroup } from "../core/apply.ts";
import type { Decision } from "../core/decision.ts";
import { decideJointly } from "./jointly.ts";
import { merge } from "./merge.ts";

/** The decisions on the groups of one request. */
export interface GroupDecisions {
  /** The decision on the enforced group; `undefined` if it is empty. */
  readonly enforced: Decision | undefined;
  /** One decision per counted group. Empty if the enforced group was denied from the cache. */
  readonly counted: readonly Decision[];
}

/** The charges of one request, all on one engine except penalties. No bucket is named twice in a group. */
export interface ChargeGroups {
  /** All or nothing. May be empty. Penalties come last. */
  readonly enforced: PartGroup;
  /** Each all or nothing, and none empty. They never deny the request. */
  readonly counted: readonly PartGroup[];
}

const NONE: readonly never[] = [];

/** Applies the groups; without a promise if the store is synchronous. `act.enforcedGroups` is 0 or 1. */
export function applyGroups(engine: Engine, groups: ChargeGroups, act: Act): MaybePromise<GroupDecisions> {
  const { enforced, counted } = groups;
  const hasEnforced = enforced.length > 0;
  if (!hasEnforced && counted.length === 0) return { enforced: undefined, counted: NONE };
  if (!isOneCall(engine, groups)) return applyApart(groups, act);
  if (!hasEnforced) {
    const own: Act = { ...act, enforcedGroups: 0, isCached: undefined };
    return andThen(engine.apply(counted, own), (decided) => ({
      enforced: undefined,
      counted: decided.map(mergeGroup),
    }));
  }
  if (counted.length === 0) {
    return andThen(engine.apply([enforced], act), ([decisions]) => asEnforced(mergeGroup(decisions as Decision[])));
  }
  // A cached denial of the first group answers the call: the request does not continue, so nothing else is counted.
  return andThen(
    engine.apply([enforced, ...counted], { ...act, enforcedGroups: act.enforcedGroups ?? 1 }),
    (decided) => {
      const [first, ...others] = decided.map(mergeGroup);
      return { enforced: first, counted: others };
    },
  );
}

const asEnforced = (decision: Decision): GroupDecisions => ({ enforced: decision, counted: NONE });

/** Groups of several shards or stores: each is called on its own. */
function applyApart({ enforced, counted }: ChargeGroups, act: Act): MaybePromise<GroupDecisions> {
  return counted.length === 0
    ? andThen(decideJointly(enforced, act), asEnforced)
    : applyAll({ enforced, counted }, act);
}

async function applyAll({ enforced, counted }: ChargeGroups, act: Act): Promise<GroupDecisions> {
  const counting = Promise.all(counted.map(async (group) => decideJointly(group, { ...act, enforcedGroups: 0 })));
  // It may reject before it is awaited.
  counting.catch(() => {});
  try {
    const decision = enforced.length > 0 ? await decideJointly(enforced, act) : undefined;
    return { enforced: decision, counted: await counting };
  } catch (error) {
    // The request fails, so nothing else ends what the counted groups hold. If that fails too, it ends by itself.
    counting.then((decisions) => releaseHolds(counted, decisions, act)).catch(() => {});
    throw error;
  }
}

async function releaseHolds(groups: readonly PartGroup[], decisions: readonly Decision[], act: Act): Promise<void> {
  const releases = groups.flatMap((charges, i) => {
    const { allowed, parts } = decisions[i] as Decision;
    if (!allowed) return [];
    return charges.map(async (charge, j) => act.undo?.(charge, parts?.[j] as Decision));
  });
  await Promise.all(releases);
}

/** A lone charge has the decision itself, without parts. */
function mergeGroup(decisions: readonly Decision[]): Decision {
  return decisions.length === 1 ? (decisions[0] as Decision) : merge(decisions);
}

/** Whether all charges are of one shard of the engine's store. */
function isOneCall(engine: Engine, { enforced, counted }: ChargeGroups): boolean {
  const last = enforced[enforced.length - 1];
  if (last && last.engine !== engine) return false;
  const { store } = engine;
  if (!store.shardOf) return true;
  let shard: number | string | undefined;
  const isSame = ({ key }: PartCharge): boolean => (shard ??= store.shardOf?.(key)) === store.shardOf?.(key);
  return enforced.every(isSame) && counted.every((group) => group.every(isSame));
}
