/**
 * Charges to several policies that stand or fall together. In one part of one store that is one atomic step.
 * Elsewhere it is look, take, and refund what was taken when one denies: it never admits more, and others may be
 * denied in between.
 */
import { MAX_CHARGES, type Mode } from "../core/charge.ts";
import { monotonicMs } from "../core/clock.ts";
import type { Decision } from "../core/decision.ts";
import { optionError } from "../core/errors.ts";
import { isGrant, recordUnknownGrant, refundOf } from "../core/grant.ts";
import { isSync, originOf, type Store, type SyncStore } from "../core/store.ts";
import { emit } from "../resilience/events.ts";
import { type CaredCharge, decideWithout, type FailurePolicy } from "../resilience/failure-policy.ts";
import { healthOf, StoreFailure } from "../resilience/store-health.ts";
import type { LimiterPart } from "./limiter-part.ts";
import { merge } from "./merge.ts";
import { samePolicy } from "./names.ts";

/** One part of a joint charge. */
export interface PartCharge extends LimiterPart {
  readonly key: string;
  readonly cost: number;
}

/** The charges of one step, and which parts of the whole each of them answers. */
interface ShardCharges {
  readonly store: Store;
  readonly part: number | string;
  readonly charges: CaredCharge[];
  readonly parts: number[][];
}

/** Refuses parts that can't be one step: too many, or two plans of one bucket. */
export function checkTogether(option: string, bindings: readonly LimiterPart[]): void {
  const count = bindings.length;
  if (count === 0) throw optionError("invalid-option", option, "at least one limit", bindings);
  if (count > MAX_CHARGES) throw optionError("too-many-charges", option, `at most ${MAX_CHARGES} limits`, count);
  for (const { store, policy, key } of bindings as readonly (LimiterPart & { key?: string })[]) {
    if (count > 1) store.check?.(policy, true);
    const rival = (bindings as readonly (LimiterPart & { key?: string })[]).find(
      (one) => originOf(one.store) === originOf(store) && one.policy.id === policy.id && one.key === key,
    );
    if (!rival || samePolicy(rival.policy, policy)) continue;
    throw optionError("policy-conflict", option, "one plan of a shared bucket, not two at once", policy.name);
  }
}

/** Takes or looks at all parts, within the shortest deadline of them. */
export async function chargeJointly(spends: readonly PartCharge[], mode: "take" | "peek"): Promise<Decision> {
  const shares = sharesOf(spends, mode);
  if (canSync(shares)) return applySharesSync(shares, spends.length, mode);
  const due = dueOf(spends);
  const inTurn = mode === "take" && shares.length > 1;
  const answers = await Promise.all(shares.map((share) => ask(share, inTurn ? "peek" : mode, due)));
  const looks = shares.map((share, i) => decisionsOf(share, inTurn ? "peek" : mode, answers[i] as Answer));
  const look = assemble(shares, looks, spends.length);
  return inTurn && look.allowed ? takeInTurn(shares, answers, looks, spends.length) : look;
}

/** Gives all parts back; with their decision, no more than is still in use of each grant. */
export async function refundJointly(spends: readonly PartCharge[], decision?: Decision): Promise<void> {
  if (decision !== undefined) {
    if (!isGrant(decision)) return;
    if (decision.parts?.length !== spends.length) {
      throw optionError("invalid-option", "decision", "a decision of this combination of limiters", decision);
    }
  }
  const shares = sharesOf(spends, "refund");
  await Promise.all(
    shares.map((share) =>
      giveBack(
        share,
        "as wanted",
        decision && share.parts.map(([place]) => decision.parts?.[place as number] as Decision),
      ),
    ),
  );
}

function dueOf(charges: readonly { readonly failurePolicy: FailurePolicy }[]): number {
  return monotonicMs() + Math.min(...charges.map(({ failurePolicy }) => failurePolicy.deadlineMs));
}

/** Takes share after share; when one denies, gives back what the others have taken. */
async function takeInTurn(
  shares: readonly ShardCharges[],
  answers: readonly Answer[],
  looks: readonly Decision[][],
  count: number,
): Promise<Decision> {
  const taken: Decision[][] = [];
  const undo = () =>
    Promise.all(taken.map((decisions, i) => giveBack(shares[i] as ShardCharges, "or told", decisions)));
  for (const [i, share] of shares.entries()) {
    const answer = answers[i] as Answer;
    let decisions: Decision[];
    try {
      // A store that did not answer the look is not asked again. One that did has its own deadline for the take: another
      // store may have used up the common one.
      const taken = answer instanceof StoreFailure ? answer : await ask(share, "take", dueOf(share.charges));
      decisions = decisionsOf(share, "take", taken);
    } catch (error) {
      await undo();
      throw error;
    }
    if (decisions.every(({ allowed }) => allowed)) {
      taken.push(decisions);
      continue;
    }
    await undo();
    // What was taken and given back is reported as it was when looked at.
    return assemble(shares, looks.with(taken.length, decisions), count);
  }
  return assemble(shares, taken, count);
}

/** The same in one turn, when every store is synchronous: nobody can come in between. */
export function chargeJointlySync(spends: readonly PartCharge[], mode: Mode): Decision {
  return applySharesSync(sharesOf(spends, mode) as SyncShare[], spends.length, mode);
}

type SyncShare = ShardCharges & { readonly store: SyncStore };

function canSync(shares: ShardCharges[]): shares is SyncShare[] {
  return shares.every((share) => isSync(share.store));
}

function applySharesSync(shares: readonly SyncShare[], count: number, mode: Mode): Decision {
  if (shares.length > 1 && mode === "take") {
    const look = assemble(
      shares,
      shares.map(({ store, charges }) => store.applySync(inMode(charges, "peek"))),
      count,
    );
    if (!look.allowed) return look;
  }
  return assemble(
    shares,
    shares.map(({ store, charges }) => store.applySync(charges)),
    count,
  );
}

/** What a store said about a share, or why it said nothing. */
type Answer = Decision[] | StoreFailure;

/** Takes or looks at one share. */
async function ask({ store, charges }: ShardCharges, mode: "take" | "peek", due: number): Promise<Answer> {
  const group = inMode(charges, mode);
  if (isSync(store)) return store.applySync(group);
  const answer = await healthOf(store).apply(store, group, due);
  if (answer instanceof StoreFailure) return answer;
  const decisions = answer[0] as Decision[];
  if (mode === "take")
    for (const [i, decision] of decisions.entries()) recordUnknownGrant(decision, group[i]?.cost ?? 0);
  return decisions;
}

/** The decisions on a share; without its store, if that failed. */
function decisionsOf({ store, charges }: ShardCharges, mode: "take" | "peek", answer: Answer): Decision[] {
  if (!(answer instanceof StoreFailure)) return answer;
  return decideWithout(inMode(charges, mode), healthOf(store), answer, monotonicMs());
}

/**
 * Gives one share back, with the decisions on its charges if they are known. A fault is told, and thrown too if that is
 * what a limiter wants of its own refunds.
 */
async function giveBack(
  share: ShardCharges,
  fault: "as wanted" | "or told",
  decisions?: readonly Decision[],
): Promise<void> {
  const { store } = share;
  const charges: CaredCharge[] = [];
  share.charges.forEach((charge, i) => {
    const refund = refundOf(decisions?.[i], charge.cost);
    if (refund) charges.push({ ...charge, cost: refund.cost, mode: "refund", grantEndsAt: refund.endsAt });
  });
  if (charges.length === 0) return;
  if (isSync(store)) return void store.applySync(charges);
  const answer = await healthOf(store).refund(store, charges, dueOf(charges));
  if (!(answer instanceof StoreFailure)) return;
  const { error } = answer;
  if (fault === "as wanted" && charges.some(({ failurePolicy }) => failurePolicy.onStoreError === "throw")) throw error;
  for (const { failurePolicy, policy, cost } of charges) {
    emit(failurePolicy.onEvent, { type: "refund-lost", policy: policy.name, cost, error });
  }
}

function inMode(charges: readonly CaredCharge[], mode: Mode): CaredCharge[] {
  return charges.map((charge) => ({ ...charge, mode }));
}

/** One share per part of a store. Costs to one bucket are summed: together they can't pass where one would not. */
function sharesOf(spends: readonly PartCharge[], mode: Mode): ShardCharges[] {
  const shares: ShardCharges[] = [];
  for (let place = 0; place < spends.length; place++) {
    const { store, policy, failurePolicy, key, cost } = spends[place] as PartCharge;
    const part = store.shardOf?.(key) ?? 0;
    let share = shares.find((share) => originOf(share.store) === originOf(store) && share.part === part);
    if (!share) shares.push((share = { store, part, charges: [], parts: [] }));
    const { charges, parts } = share;
    const i = charges.findIndex((charge) => charge.key === key && charge.policy.id === policy.id);
    const earlier = charges[i];
    if (!earlier) {
      charges.push({ policy, failurePolicy, key, cost, mode });
      parts.push([place]);
      continue;
    }
    charges[i] = { ...earlier, cost: earlier.cost + cost };
    parts[i]?.push(place);
  }
  return shares;
}

/** The decisions in the order of the parts, and the one that they make together. */
function assemble(shares: readonly ShardCharges[], decisions: readonly Decision[][], count: number): Decision {
  const parts = new Array<Decision>(count);
  shares.forEach((share, s) => {
    share.parts.forEach((places, i) => {
      for (const place of places) parts[place] = decisions[s]?.[i] as Decision;
    });
  });
  return merge(parts);
}
