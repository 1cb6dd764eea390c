/**
 * Charges to several shards or stores: peek, take or hold in turn, and refund or cancel that if one denies. That never
 * admits more, and another caller may be denied in between. Without promises if every store is synchronous.
 */

import { monotonicMs } from "../base/clock.ts";
import { SluiceError } from "../base/errors.ts";
import { allOf, andThen, type MaybePromise, tryThen } from "../base/maybe-promise.ts";
import {
  type Act,
  deadlineOf,
  type Engine,
  type PartCharge,
  type PartGroup,
  PEEK,
  STRIKE,
  UNDO,
} from "../core/apply.ts";
import { countsAsViolation } from "../core/decide.ts";
import type { Decision } from "../core/decision.ts";
import { applyRefunds, refundsOf } from "../core/refunds.ts";
import { originOf } from "../core/store.ts";

/** The charges of one shard, and the indexes of each in the whole list. Charges to one bucket are added up. */
export interface ShardCharges {
  readonly engine: Engine;
  readonly shard: number | string;
  readonly charges: PartCharge[];
  readonly indexes: number[][];
}

/** What a shard would decide. */
interface Look {
  readonly decisions: Decision[];
  /** Decides without the store, if it failed. */
  readonly decideWithout: ((groups: readonly PartGroup[]) => Decision[][]) | undefined;
}

/** Splits charges by shard. Costs to one bucket are added up: together they must fit. */
export function splitByShard(charges: PartGroup): ShardCharges[] {
  const shards: ShardCharges[] = [];
  for (const [index, charge] of charges.entries()) {
    const { engine, policy, key } = charge;
    const id = engine.store.shardOf?.(key) ?? 0;
    let shard = shards.find((one) => one.shard === id && originOf(one.engine.store) === originOf(engine.store));
    if (!shard) shards.push((shard = { engine, shard: id, charges: [], indexes: [] }));
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

/** The decisions in the order of the charges. */
export function placeDecisions(
  shards: readonly ShardCharges[],
  decisions: readonly Decision[][],
  count: number,
): Decision[] {
  const placed = new Array<Decision>(count);
  for (const [s, { indexes }] of shards.entries()) {
    for (const [i, places] of indexes.entries()) {
      for (const place of places) placed[place] = decisions[s]?.[i] as Decision;
    }
  }
  return placed;
}

/** Decides charges that can be denied. Returns the decisions of each shard. */
export function applyAcrossShards(
  shards: readonly ShardCharges[],
  act: Act,
  sentAt: number,
): MaybePromise<Decision[][]> {
  // What happens around the call is up to the caller, who sees all of it.
  const { applied, failed, undo, without } = act;
  const inner: Act = { applied, failed, undo, without };
  const [only] = shards as [ShardCharges];
  if (shards.length === 1) return only.engine.apply([only.charges], inner);
  if (shards.every(({ engine }) => engine.syncStore)) return applyInOneTurn(shards, inner);
  const due = sentAt + deadlineOf(shards.map(({ charges }) => charges));
  return andThen(allOf(shards.map((shard) => () => look(shard, due))), (looks) => {
    const seen = looks.map(({ decisions }) => decisions);
    if (isLook(shards)) return seen;
    return isAllowed(seen) ? takeInTurn(shards, looks, inner, []) : strike(shards, seen);
  });
}

/** Every store is synchronous, so no other caller can come in between. */
function applyInOneTurn(shards: readonly ShardCharges[], act: Act): Decision[][] {
  const apply = (shard: ShardCharges, group: PartGroup, act: Act): Decision[] =>
    (shard.engine.apply([group], act) as Decision[][])[0] as Decision[];
  const seen = shards.map((shard) => apply(shard, asPeeks(shard.charges), PEEK));
  if (isLook(shards)) return seen;
  if (!isAllowed(seen)) return strike(shards, seen) as Decision[][];
  return shards.map((shard) => apply(shard, shard.charges, act));
}

/** Whether charges change nothing. */
function isLook(shards: readonly ShardCharges[]): boolean {
  return shards.every(({ charges }) => charges.every(({ mode }) => mode === "peek"));
}

function isAllowed(decisions: readonly Decision[][]): boolean {
  return decisions.every((own) => own.every(({ allowed }) => allowed));
}

function asPeeks(charges: PartGroup): PartCharge[] {
  return charges.map((charge) => ({ ...charge, mode: "peek" }));
}

function look({ engine, charges }: ShardCharges, due: number): MaybePromise<Look> {
  let decideWithout: Look["decideWithout"];
  const act: Act = {
    without(groups, _, decide) {
      decideWithout = decide;
      return decide(groups);
    },
  };
  return andThen(engine.apply([asPeeks(charges)], act, due), ([decisions]) => ({
    decisions: decisions as Decision[],
    decideWithout,
  }));
}

/** Takes from one shard after the other. If one denies, refunds what the others have taken. */
function takeInTurn(
  shards: readonly ShardCharges[],
  looks: readonly Look[],
  act: Act,
  taken: readonly Decision[][],
): MaybePromise<Decision[][]> {
  const shard = shards[taken.length];
  if (!shard) return [...taken];
  const { engine, charges } = shard;
  const { decideWithout } = looks[taken.length] as Look;
  const undo = () => allOf(taken.map((decisions, i) => () => undoShard(shards[i] as ShardCharges, decisions, act)));
  return tryThen(
    // Don't call a shard again that failed the peek. One that replied has its own deadline for the take: another store
    // may have used up the common one.
    () =>
      decideWithout ? decideWithout([charges]) : engine.apply([charges], act, monotonicMs() + deadlineOf([charges])),
    ([decisions = []]) => {
      if (decisions.every(({ allowed }) => allowed)) return takeInTurn(shards, looks, act, [...taken, decisions]);
      // Report what was taken and refunded as it was when peeked at.
      return andThen(undo(), () => looks.map((one) => one.decisions).with(taken.length, decisions));
    },
    (error) =>
      andThen(undo(), () => {
        throw error;
      }),
  );
}

/** Refunds what was taken, and cancels what was held. */
function undoShard({ charges }: ShardCharges, decisions: readonly Decision[], act: Act): MaybePromise<unknown[]> {
  const taken = charges.flatMap((charge, i) => (charge.mode === "take" ? [i] : []));
  const refunds = refundsOf(
    taken.map((i) => charges[i] as PartCharge),
    taken.map((i) => decisions[i] as Decision),
  );
  return allOf<unknown>([
    () => applyRefunds(refunds, UNDO),
    ...charges.map((charge, i) => () => act.undo?.(charge, decisions[i] as Decision)),
  ]);
}

/** Records the strikes of a violation that was seen across shards, each in a step of its own. */
function strike(shards: readonly ShardCharges[], looks: readonly Decision[][]): MaybePromise<Decision[][]> {
  const seen = looks.flat();
  const group = shards.flatMap(({ charges }) => charges);
  // A store that can't decide is no violation by the caller.
  const isUnavailable = seen.some((decision) => !decision.allowed && decision.unavailable);
  const fit = seen.map(({ allowed }) => allowed);
  if (isUnavailable || !countsAsViolation(group, fit)) return [...looks];
  return allOf(
    shards.map(
      ({ engine, charges }, s) =>
        () =>
          allOf(
            charges.map((charge, i) => () => {
              if (charge.mode !== "penalty") return (looks[s] as Decision[])[i] as Decision;
              const struck = engine.apply([[{ ...charge, mode: "take" }]], STRIKE);
              return andThen(struck, ([decisions]) => decisions?.[0] as Decision);
            }),
          ),
    ),
  );
}
