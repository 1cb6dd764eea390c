/**
 * Charges to several policies that stand or fall together. On one store that is one atomic step.
 * Over several it is look, take, and refund what was taken when one denies: it never admits more, and
 * others may be denied in between.
 */
import { type Charge, MAX_CHARGES, type Mode } from "../core/charge.ts";
import type { Decision } from "../core/decision.ts";
import { SluiceError } from "../core/errors.ts";
import { isSync, type Store, type SyncStore } from "../core/store.ts";
import type { Binding } from "./binding.ts";
import { merge } from "./merge.ts";
import { samePolicy } from "./names.ts";

/** One part of a joint charge. */
export interface Spend extends Binding {
  readonly key: string;
  readonly cost: number;
}

/** The charges of one store, and which parts of the whole each of them answers. */
interface Share {
  readonly store: Store;
  readonly charges: Charge[];
  readonly parts: number[][];
}

/** Refuses parts that can't be one step: too many, or two plans of one bucket. */
export function checkTogether(option: string, bindings: readonly Binding[]): void {
  const count = bindings.length;
  if (count === 0) throw new SluiceError("invalid-option", option, "at least one limit", bindings);
  if (count > MAX_CHARGES) throw new SluiceError("too-many-charges", option, `at most ${MAX_CHARGES} limits`, count);
  for (const { store, terms } of bindings) {
    const rival = bindings.find((one) => one.store === store && one.terms.bucket === terms.bucket) as Binding;
    if (samePolicy(rival.terms, terms)) continue;
    throw new SluiceError("policy-conflict", option, "one plan of a shared bucket, not two at once", terms.name);
  }
}

/** Takes, looks at or refunds all parts. */
export async function chargeJointly(spends: readonly Spend[], mode: Mode): Promise<Decision> {
  const shares = sharesOf(spends, mode);
  if (canSync(shares)) return settleSync(shares, spends.length, mode);
  if (shares.length === 1 || mode !== "take") return assemble(shares, await each(shares, mode), spends.length);
  const looks = await each(shares, "peek");
  const look = assemble(shares, looks, spends.length);
  if (!look.allowed) return look;
  const taken: Decision[][] = [];
  for (const share of shares) {
    const decisions = await takeOrRefund(share, shares.slice(0, taken.length));
    taken.push(decisions);
    if (decisions.every((decision) => decision.allowed)) continue;
    await each(shares.slice(0, taken.length - 1), "refund");
    // What was taken and given back is reported as it was when looked at.
    return assemble(shares, looks.with(taken.length - 1, decisions), spends.length);
  }
  return assemble(shares, taken, spends.length);
}

/** The same in one turn, when every store is synchronous: nobody can come in between. */
export function chargeJointlySync(spends: readonly Spend[], mode: Mode): Decision {
  return settleSync(sharesOf(spends, mode) as SyncShare[], spends.length, mode);
}

type SyncShare = Share & { readonly store: SyncStore };

function canSync(shares: Share[]): shares is SyncShare[] {
  return shares.every((share) => isSync(share.store));
}

function settleSync(shares: readonly SyncShare[], count: number, mode: Mode): Decision {
  if (shares.length > 1 && mode === "take") {
    const look = assemble(
      shares,
      shares.map(({ store, charges }) => store.takeSync(inMode(charges, "peek"))),
      count,
    );
    if (!look.allowed) return look;
  }
  return assemble(
    shares,
    shares.map(({ store, charges }) => store.takeSync(charges)),
    count,
  );
}

function each(shares: readonly Share[], mode: Mode): Promise<Decision[][]> {
  return Promise.all(
    shares.map(async ({ store, charges }) => {
      const [decisions] = await store.take([inMode(charges, mode)]);
      return decisions as Decision[];
    }),
  );
}

async function takeOrRefund({ store, charges }: Share, before: readonly Share[]): Promise<Decision[]> {
  try {
    const [decisions] = await store.take([charges]);
    return decisions as Decision[];
  } catch (error) {
    await each(before, "refund");
    throw error;
  }
}

function inMode(charges: readonly Charge[], mode: Mode): Charge[] {
  return charges.map((charge) => ({ ...charge, mode }));
}

/** One share per store. Costs to one bucket are summed, so that together they can't pass where one would not. */
function sharesOf(spends: readonly Spend[], mode: Mode): Share[] {
  const shares: Share[] = [];
  for (let part = 0; part < spends.length; part++) {
    const { store, terms, key, cost } = spends[part] as Spend;
    let share = shares.find((share) => share.store === store);
    if (!share) shares.push((share = { store, charges: [], parts: [] }));
    const { charges, parts } = share;
    const i = charges.findIndex((charge) => charge.key === key && charge.terms.bucket === terms.bucket);
    const earlier = charges[i];
    if (!earlier) {
      charges.push({ terms, key, cost, mode });
      parts.push([part]);
      continue;
    }
    charges[i] = { ...earlier, cost: earlier.cost + cost };
    parts[i]?.push(part);
  }
  return shares;
}

/** The decisions in the order of the parts, and the one that they make together. */
function assemble(shares: readonly Share[], decisions: readonly Decision[][], count: number): Decision {
  const parts = new Array<Decision>(count);
  shares.forEach((share, s) => {
    share.parts.forEach((places, i) => {
      for (const place of places) parts[place] = decisions[s]?.[i] as Decision;
    });
  });
  return merge(parts);
}
