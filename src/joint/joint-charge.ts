/**
 * Charges to several policies, all or nothing. In one shard of one store that is one atomic step. Across shards or
 * stores it is peek, take or hold, and refund or cancel that if one denies: that never admits more, and another caller
 * may be denied in between.
 */

import { countsAsViolation } from "../core/decide.ts";
import { MAX_CHARGES } from "../core/charge.ts";
import { monotonicMs } from "../core/clock.ts";
import type { Decision } from "../core/decision.ts";
import { optionError, SluiceError } from "../core/errors.ts";
import { andThen, type MaybePromise } from "../core/maybe-promise.ts";
import { originOf } from "../core/store.ts";
import type { JointCharge, LimiterPart } from "../core/limiter-part.ts";
import { merge } from "./merge.ts";
import { observeCall, observeDecision } from "./observed-charges.ts";
import { refundsOf } from "../core/refunds.ts";
import type { PortReply, StorePort } from "../core/sync-port.ts";

/** The charges of one shard, and the index of each in the whole list. Charges to one bucket are added up. */
interface ShardCharges {
  readonly port: StorePort;
  readonly shard: number | string;
  readonly charges: JointCharge[];
  readonly indexes: number[][];
}

/** Throws if parts can't be charged together: too many, or two plans of one bucket. */
export function checkTogether(option: string, parts: readonly (LimiterPart & { readonly key?: string })[]): void {
  const count = parts.length;
  if (count === 0) throw optionError("invalid-option", option, "a list of at least one limit", parts);
  if (count > MAX_CHARGES) {
    throw optionError("too-many-charges", option, `a list of at most ${MAX_CHARGES} limits`, count);
  }
  for (const { port, policy, key } of parts) {
    if (count > 1) port.store.check?.(policy, true);
    const rival = parts.find(
      (other) =>
        other.policy.id === policy.id && other.key === key && originOf(other.port.store) === originOf(port.store),
    );
    if (!rival || rival.policy.fingerprint === policy.fingerprint) continue;
    const message = `${option} contains two plans of the shared policy "${policy.name}". Charge one of them at a time.`;
    const details = { option, expected: "one plan of a shared bucket, not two at once", received: policy.name };
    throw new SluiceError("policy-conflict", message, details);
  }
}

/** Applies charges that can be denied, within the shortest deadline of them. */
export function applyJointly(charges: readonly JointCharge[]): MaybePromise<Decision> {
  const call = observeCall(charges);
  const decided = decideJointly(charges);
  if (!call) return decided;
  return andThen(decided, (decision) => {
    observeDecision(charges, decision, call);
    return decision;
  });
}

/** The same, without an observer. */
export function decideJointly(charges: readonly JointCharge[]): MaybePromise<Decision> {
  const { port } = charges[0] as JointCharge;
  if (charges.every((charge) => charge.port.syncStore)) return applySync(charges);
  // Denials by several stores are not cached, and a hold that may exist already can be replaced by a smaller one.
  const isCached =
    !isLook(charges) &&
    charges.every((charge) => charge.port === port && (charge.mode !== "hold" || charge.isNewHold === true));
  const sentAt = monotonicMs();
  const denial = isCached ? port.cachedDenial(charges, sentAt, true) : undefined;
  if (denial) return denial;
  const decided = applyShards(charges, sentAt);
  if (!isCached) return decided;
  return decided.then((decision) => {
    port.recordDecision(charges, decision, sentAt, true);
    return decision;
  });
}

async function applyShards(charges: readonly JointCharge[], sentAt: number): Promise<Decision> {
  const shards = splitByShard(charges);
  const inTurn = shards.length > 1 && !isLook(charges);
  const due = sentAt + deadlineOf(charges);
  const replies = await Promise.all(
    // Async, so that a synchronous port that throws leaves no promise of another port unhandled.
    shards.map(async ({ port, charges }) => port.apply(inTurn ? asPeeks(charges) : charges, due)),
  );
  const looks = replies.map(({ decisions }) => decisions);
  const look = assemble(shards, looks, charges.length);
  if (!inTurn) return look;
  return look.allowed ? takeInTurn(shards, replies, charges.length) : strikeShards(shards, looks, charges.length);
}

/** Records the strikes of a violation that was seen across shards, each in a step of its own. */
async function strikeShards(
  shards: readonly ShardCharges[],
  looks: readonly Decision[][],
  count: number,
): Promise<Decision> {
  const seen = looks.flat();
  const group = shards.flatMap((shard) => shard.charges);
  const fit = seen.map(({ allowed }) => allowed);
  // A store that can't decide is no violation by the caller.
  const isUnavailable = seen.some((decision) => !decision.allowed && decision.unavailable);
  if (isUnavailable || !countsAsViolation(group, fit)) return assemble(shards, looks, count);
  const struck = await Promise.all(
    shards.map(async ({ port, charges }, s) =>
      Promise.all(
        charges.map(async (charge, i) =>
          charge.mode === "penalty"
            ? port.applyOne({ ...charge, mode: "take" })
            : ((looks[s] as Decision[])[i] as Decision),
        ),
      ),
    ),
  );
  return assemble(shards, struck, count);
}

/** Whether charges change nothing. */
function isLook(charges: readonly JointCharge[]): boolean {
  return charges.every(({ mode }) => mode === "peek");
}

/** Takes from one shard after the other. If one denies, refunds what the others have taken. */
async function takeInTurn(
  shards: readonly ShardCharges[],
  looks: readonly PortReply[],
  count: number,
): Promise<Decision> {
  const taken: Decision[][] = [];
  const undo = () => Promise.all(taken.map((decisions, i) => undoShard(shards[i] as ShardCharges, decisions)));
  for (const [i, { port, charges }] of shards.entries()) {
    let decisions: Decision[];
    try {
      // Don't call a shard again that failed the peek. One that replied has its own deadline for the take: another
      // store may have used up the common one.
      const { failure } = looks[i] as PortReply;
      const due = monotonicMs() + deadlineOf(charges);
      decisions = failure ? port.applyWithout(charges, failure) : (await port.apply(charges, due)).decisions;
    } catch (error) {
      await undo();
      throw error;
    }
    if (decisions.every(({ allowed }) => allowed)) {
      taken.push(decisions);
      continue;
    }
    await undo();
    // Report what was taken and refunded as it was when peeked at.
    const seen = looks.map((look) => look.decisions);
    return assemble(shards, seen.with(taken.length, decisions), count);
  }
  return assemble(shards, taken, count);
}

/** The same in one turn of the event loop, if every store is synchronous: no other caller can come in between. */
function applySync(charges: readonly JointCharge[]): Decision {
  const shards = splitByShard(charges);
  const apply = ({ port }: ShardCharges, group: readonly JointCharge[]): Decision[] =>
    port.syncStore?.applySync(group) ?? [];
  if (shards.length > 1 && !isLook(charges)) {
    const looks = shards.map((shard) => apply(shard, asPeeks(shard.charges)));
    if (!assemble(shards, looks, charges.length).allowed) return strikeSync(shards, looks, charges.length);
  }
  return assemble(
    shards,
    shards.map((shard) => apply(shard, shard.charges)),
    charges.length,
  );
}

/** The same as `strikeShards` for synchronous stores. */
function strikeSync(shards: readonly ShardCharges[], looks: readonly Decision[][], count: number): Decision {
  const fit = looks.flat().map(({ allowed }) => allowed);
  const group = shards.flatMap(({ charges }) => charges);
  const strikes = countsAsViolation(group, fit);
  const decisions = shards.map(({ port, charges }, s) =>
    charges.map((charge, i) =>
      strikes && charge.mode === "penalty"
        ? (port.applyOne({ ...charge, mode: "take" }) as Decision)
        : ((looks[s] as Decision[])[i] as Decision),
    ),
  );
  return assemble(shards, decisions, count);
}

/** Refunds charges; with the decisions on them, no more than is still in use of each grant. */
export async function refundJointly(charges: readonly JointCharge[], decisions?: readonly Decision[]): Promise<void> {
  const refunds = splitByShard(charges).map((shard) => {
    const own = decisions && shard.indexes.map(([index]) => decisions[index as number] as Decision);
    return refundShard(shard, own, true);
  });
  await Promise.all(refunds);
}

/** Refunds what was taken, and cancels what was held. */
async function undoShard(shard: ShardCharges, decisions: readonly Decision[]): Promise<void> {
  const { port, charges } = shard;
  const cancelled = charges.map((charge, i) => charge.acts?.undo(charge, decisions[i]));
  const taken = charges.flatMap((charge, i) => (charge.mode === "take" ? [i] : []));
  const refunds = refundsOf(
    taken.map((i) => charges[i] as JointCharge),
    taken.map((i) => decisions[i] as Decision),
  );
  await Promise.all([refunds.length > 0 ? port.refund(refunds, false) : undefined, ...cancelled]);
}

async function refundShard(
  { port, charges }: ShardCharges,
  decisions: readonly Decision[] | undefined,
  mayThrow: boolean,
): Promise<void> {
  const refunds = refundsOf(charges, decisions);
  if (refunds.length > 0) await port.refund(refunds, mayThrow);
}

function deadlineOf(charges: readonly JointCharge[]): number {
  return Math.min(...charges.map(({ failurePolicy }) => failurePolicy.deadlineMs));
}

function asPeeks(charges: readonly JointCharge[]): JointCharge[] {
  return charges.map((charge) => ({ ...charge, mode: "peek" }));
}

/** Splits charges by shard. Costs to one bucket are added up: together they must fit. */
function splitByShard(charges: readonly JointCharge[]): ShardCharges[] {
  const shards: ShardCharges[] = [];
  for (const [index, charge] of charges.entries()) {
    const { port, policy, key } = charge;
    const id = port.store.shardOf?.(key) ?? 0;
    let shard = shards.find((one) => one.shard === id && originOf(one.port.store) === originOf(port.store));
    if (!shard) shards.push((shard = { port, shard: id, charges: [], indexes: [] }));
    const i = shard.charges.findIndex((other) => other.key === key && other.policy.id === policy.id);
    const same = shard.charges[i];
    if (same && same.mode !== charge.mode) {
      const message = `"${policy.name}" is both held and taken for one key. Hold or take the sum of both.`;
      throw new SluiceError("policy-conflict", message, { option: "charges", expected: "each bucket once" });
    }
    if (same) {
      // A violation is one strike, however often the group names the penalty.
      const cost = charge.mode === "penalty" ? Math.max(same.cost, charge.cost) : same.cost + charge.cost;
      shard.charges[i] = { ...same, cost };
      shard.indexes[i]?.push(index);
    } else {
      shard.charges.push(charge);
      shard.indexes.push([index]);
    }
  }
  return shards;
}

/** Merges the decisions, in the order of the charges. */
function assemble(shards: readonly ShardCharges[], decisions: readonly Decision[][], count: number): Decision {
  const parts = new Array<Decision>(count);
  for (const [s, { indexes }] of shards.entries()) {
    for (const [i, places] of indexes.entries()) {
      for (const place of places) parts[place] = decisions[s]?.[i] as Decision;
    }
  }
  return merge(parts);
}
