/**
 * Applies the charges of one request: one group that is enforced, and further groups that are only counted, such as
 * limits in shadow mode. In one shard of a store that is one call.
 */
import { monotonicMs } from "../core/clock.ts";
import type { Decision } from "../core/decision.ts";
import { andThen, isPromise, type MaybePromise } from "../core/maybe-promise.ts";
import { decideJointly } from "./joint-charge.ts";
import type { JointCharge } from "../core/limiter-part.ts";
import { merge } from "./merge.ts";
import { observeCall, observeDecision } from "./observed-charges.ts";
import type { PortReply, StorePort } from "../core/sync-port.ts";

/** The decisions on the groups of one request. */
export interface GroupDecisions {
  /** The decision on the enforced group; `undefined` if it is empty. */
  readonly enforced: Decision | undefined;
  /** One decision per counted group. Empty if the enforced group was denied from the cache. */
  readonly counted: readonly Decision[];
}

/** The charges of one request, all on one port except penalties. No bucket is named twice in a group. */
export interface ChargeGroups {
  /** All or nothing. May be empty. Penalties come last. */
  readonly enforced: readonly JointCharge[];
  /** Each all or nothing, and none empty. They never deny the request. */
  readonly counted: readonly (readonly JointCharge[])[];
}

/** Applies the groups; without a promise if the store is synchronous. */
export function applyGroups(port: StorePort, groups: ChargeGroups): MaybePromise<GroupDecisions> {
  const { enforced, counted } = groups;
  let call = observeCall(enforced);
  // The enforced group may be empty, or only look at a penalty.
  for (const group of counted) call ??= observeCall(group);
  const decided = decideGroups(port, groups);
  if (!call) return decided;
  return andThen(decided, (decisions) => {
    if (decisions.enforced) observeDecision(enforced, decisions.enforced, call);
    for (const [i, decision] of decisions.counted.entries()) {
      observeDecision(counted[i] as readonly JointCharge[], decision, call, false);
    }
    return decisions;
  });
}

function decideGroups(port: StorePort, { enforced, counted }: ChargeGroups): MaybePromise<GroupDecisions> {
  const { syncStore } = port;
  const last = enforced[enforced.length - 1];
  if (last && last.port !== port) {
    return counted.length > 0 ? applyApart(enforced, counted) : andThen(decideJointly(enforced), asEnforced);
  }
  if (syncStore) {
    const decide = (group: readonly JointCharge[]): Decision => mergeGroup(syncStore.applySync(group));
    return {
      enforced: enforced.length > 0 ? decide(enforced) : undefined,
      counted: counted.length > 0 ? counted.map(decide) : NONE,
    };
  }
  if (!isOneShard(port, enforced, counted)) return applyApart(enforced, counted);
  if (counted.length === 0) return applyEnforced(port, enforced);
  return applyInOneCall(port, enforced, counted);
}

const NONE: readonly never[] = [];

const asEnforced = (decision: Decision): GroupDecisions => ({ enforced: decision, counted: NONE });

function applyEnforced(port: StorePort, enforced: readonly JointCharge[]): MaybePromise<GroupDecisions> {
  const [first] = enforced;
  if (first === undefined) return { enforced: undefined, counted: NONE };
  // A lone charge shares the cached denials of its key with single limiters.
  const decided = enforced.length === 1 ? port.applyOne(first) : decideJointly(enforced);
  return isPromise(decided) ? decided.then(asEnforced) : asEnforced(decided);
}

async function applyInOneCall(
  port: StorePort,
  enforced: readonly JointCharge[],
  counted: readonly (readonly JointCharge[])[],
): Promise<GroupDecisions> {
  const sentAt = monotonicMs();
  const isCached =
    enforced.length > 0 && enforced.every(({ mode, isNewHold }) => mode !== "hold" || isNewHold === true);
  const denial = isCached ? port.cachedDenial(enforced, sentAt, true) : undefined;
  // The request does not continue, so a flood of denied ones costs no round trips.
  if (denial) return { enforced: denial, counted: NONE };
  const groups = enforced.length > 0 ? [enforced, ...counted] : counted;
  const deadlines = groups.flat().map(({ failurePolicy }) => failurePolicy.deadlineMs);
  const replies = await port.applyGroups(groups, sentAt + Math.min(...deadlines));
  const decisions = replies.map(({ decisions }: PortReply) => merge(decisions));
  if (enforced.length === 0) return { enforced: undefined, counted: decisions };
  const [decision, ...rest] = decisions as [Decision, ...Decision[]];
  if (isCached) port.recordDecision(enforced, decision, sentAt, true);
  return { enforced: decision, counted: rest };
}

/** Groups of several shards or stores: each is called on its own. */
async function applyApart(
  enforced: readonly JointCharge[],
  counted: readonly (readonly JointCharge[])[],
): Promise<GroupDecisions> {
  const counting = Promise.all(counted.map(async (group) => decideJointly(group)));
  // It may reject before it is awaited.
  counting.catch(() => {});
  try {
    const decision = enforced.length > 0 ? await decideJointly(enforced) : undefined;
    return { enforced: decision, counted: await counting };
  } catch (error) {
    // The request fails, so nothing else ends what the counted groups hold. If that fails too, it ends by itself.
    counting.then((decisions) => releaseHolds(counted, decisions)).catch(() => {});
    throw error;
  }
}

async function releaseHolds(
  groups: readonly (readonly JointCharge[])[],
  decisions: readonly Decision[],
): Promise<void> {
  const releases = groups.flatMap((charges, i) => {
    const { allowed, parts } = decisions[i] as Decision;
    if (!allowed) return [];
    return charges.map(async (charge, j) => charge.acts?.undo(charge, parts?.[j]));
  });
  await Promise.all(releases);
}

function mergeGroup(decisions: readonly Decision[]): Decision {
  return decisions.length === 1 ? (decisions[0] as Decision) : merge(decisions);
}

function isOneShard(
  { store }: StorePort,
  enforced: readonly JointCharge[],
  counted: readonly (readonly JointCharge[])[],
): boolean {
  if (!store.shardOf) return true;
  const [first, ...others] = [enforced, ...counted].flat();
  if (first === undefined) return true;
  const shard = store.shardOf(first.key);
  return others.every(({ key }) => store.shardOf?.(key) === shard);
}
