/**
 * Holds: amounts of a bucket that are reserved under an id. A held amount can't be spent and doesn't refill. It is charged
 * when it is settled (the actual cost), or when the hold ends (in full). So over any time, no more is used than the policy
 * allows, whenever between hold and settlement the work is done.
 *
 * What doesn't fit when it is charged becomes a debt, which is held until it fits: no algorithm needs code for debts. All
 * of this is the same for every algorithm. Their functions are called with the instant at which a hold ended.
 */
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import type { Decision, DecisionFields } from "../core/decision.ts";
import type { Algorithm, Cells } from "./algorithm.ts";
import { algorithms } from "./algorithms.ts";
import { type Debt, isHeldState, MAX_HOLDS, type State, type StoredHold } from "./held-state.ts";

/** A bucket with holds at one instant. Changes are made to a copy, and `state` returns it. */
export class HeldBucket {
  /** Sum of all holds and the debt. */
  held = 0;
  /** What the settlement did not charge, because the debt is at most one limit. */
  forgiven = 0;
  private readonly policy: CompiledPolicy;
  private readonly algorithm: Algorithm;
  private readonly now: number;
  private cells: Cells;
  /** Ordered by end, then age. Those before `first` have ended. */
  private holds: readonly StoredHold[];
  private first = 0;
  private debt: Debt | undefined;
  /** Whether the stored state is dated in the future, because the clock has stepped back. */
  readonly isInFuture: boolean;

  constructor(state: State | undefined, policy: CompiledPolicy, now: number) {
    this.policy = policy;
    this.algorithm = algorithms[policy.algorithm];
    this.now = now;
    const stored = isHeldState(state) ? state : { base: state ?? [], writtenAt: 0, holds: [], debt: undefined };
    this.cells = cellsOf(stored.base, this.algorithm);
    this.holds = stored.holds;
    this.debt = stored.debt;
    // If the clock has stepped back, no time has passed since the holds were written.
    const back = Math.max(0, stored.writtenAt - now);
    if (back > 0) {
      this.holds = stored.holds.map((hold) => ({ ...hold, end: hold.end - back }));
      if (this.debt) this.debt = { ...this.debt, dueAt: this.debt.dueAt - back };
    }
    for (const { amount } of this.holds) this.held += amount;
    this.held += this.debt?.amount ?? 0;
    this.endUntil(now);
    this.isInFuture = this.clampToNow() || back > 0;
    if (this.debt) this.reviewDebt(this.debt);
    this.clearIfUnused();
  }

  /** Whether `cost` fits beside everything that is held. */
  fits(cost: number): boolean {
    return cost === 0 || this.leavesRoom(cost, this.held);
  }

  /** Whether `amount` can be held under an id. Holding no more than before is always possible. */
  canHold(id: string, amount: number): boolean {
    const own = this.find(id);
    if (own && amount <= own.amount) return true;
    if (!own && this.holds.length - this.first >= MAX_HOLDS) return false;
    return this.leavesRoom(amount, this.held - (own?.amount ?? 0));
  }

  /** Holds `amount` under an id, in place of what was held under it. */
  hold(id: string, amount: number, forMs: number): void {
    this.remove(id);
    const end = this.now + forMs;
    const holds = this.holds.slice(this.first);
    let at = holds.length;
    while (at > 0 && (holds[at - 1] as StoredHold).end > end) at--;
    holds.splice(at, 0, { id, amount, end });
    this.holds = holds;
    this.first = 0;
    this.held += amount;
  }

  /** Charges the actual cost of a hold, and returns whether the hold still existed. */
  settle(id: string, actual: number): boolean {
    if (!this.remove(id)) return false;
    this.forgiven = 0;
    this.charge(actual, this.now);
    return true;
  }

  /** Takes a cost that fits, and returns when the grant expires. */
  take(cost: number): number {
    const { algorithm, cells, policy, now } = this;
    algorithm.add(cells, 0, policy, now, this.used(now), cost);
    return now + this.ownResetAfter();
  }

  /** Milliseconds until nothing is in use beside what is held. */
  ownResetAfter(): number {
    const { algorithm, cells, policy, now } = this;
    const used = this.used(now);
    return used > 0 ? algorithm.reset(cells, 0, policy, now, used) : 0;
  }

  /** Refunds the debt first, then what is in use. Returns whether there was anything to refund. */
  refund(cost: number, grantEndsAt: number | undefined): boolean {
    const { algorithm, cells, policy, now } = this;
    const used = this.used(now);
    if (cost === 0 || used === 0 || (grantEndsAt !== undefined && grantEndsAt <= now)) return false;
    const debt = this.takeDebt();
    if (cost > debt) algorithm.refund(cells, 0, policy, now, used, cost - debt, grantEndsAt);
    if (debt > cost) this.charge(debt - cost, now);
    return true;
  }

  /** Deletes holds, debt and all that is in use. */
  clear(): void {
    this.holds = [];
    this.first = 0;
    this.debt = undefined;
    this.held = 0;
    this.cells = cellsOf([], this.algorithm);
  }

  /** The decision on `cost`. `id`: it is to be held under this id. */
  decision(allowed: boolean, cost: number, id?: string): Decision {
    const fields = this.fields();
    if (allowed) return allowedWith(fields);
    const retryAfterMs = this.waitFor(cost, id);
    if (retryAfterMs === null) return { allowed: false, ...fields, retryAfterMs };
    const earliestRetryMs = Math.max(1, this.withoutHolds().waitFor(cost) as number);
    return earliestRetryMs < retryAfterMs
      ? { allowed: false, ...fields, retryAfterMs, earliestRetryMs }
      : { allowed: false, ...fields, retryAfterMs };
  }

  /** The decision on a settlement whose hold does not exist, and never will. */
  missing(): Decision {
    return { allowed: false, ...this.fields(), retryAfterMs: null };
  }

  /** The next state; without holds and debt, that of the algorithm alone. */
  state(): State {
    this.clearIfUnused();
    const cells = (this.algorithm.list ? this.cells[0] : this.cells) as readonly number[];
    const base = cells.every((cell) => cell === 0) ? [] : [...cells];
    const holds = this.holds.slice(this.first);
    if (holds.length === 0 && !this.debt) return base;
    return { base, writtenAt: this.now, holds, ...(this.debt && { debt: this.debt }) };
  }

  /** The holds and the debt, for people to read. */
  describe(): { holds: { id: string; amount: number; endsAfterMs: number }[]; debt: number } {
    const holds = this.holds.slice(this.first);
    return {
      holds: holds.map(({ id, amount, end }) => ({ id, amount, endsAfterMs: end - this.now })),
      debt: this.debt?.amount ?? 0,
    };
  }

  private fields(): DecisionFields {
    const { name, limit } = this.policy;
    this.clearIfUnused();
    const { held } = this;
    const remaining = Math.max(0, this.free(this.now) - held);
    const resetAfterMs = this.resetAfter();
    const nextAfterMs = resetAfterMs === 0 || remaining >= limit ? 0 : (this.waitFor(remaining + 1) as number);
    return held > 0
      ? { policy: name, limit, remaining, resetAfterMs, nextAfterMs, held }
      : { policy: name, limit, remaining, resetAfterMs, nextAfterMs };
  }

  /** Milliseconds until nothing is in use, if nothing is settled. */
  private resetAfter(): number {
    const { algorithm, policy, now } = this;
    // Without a charge at their end, the last hold is the last use.
    if (algorithm.holdsOnly) return Math.max(0, (this.holds[this.holds.length - 1]?.end ?? now) - now);
    const later = this.copy();
    let time = now;
    for (let next = later.nextEnd(); next < Number.POSITIVE_INFINITY; next = later.nextEnd()) {
      time = next;
      later.endUntil(time);
    }
    const used = later.used(time);
    return time - now + (used > 0 ? algorithm.reset(later.cells, 0, policy, time, used) : 0);
  }

  /** Milliseconds until `cost` fits, or can be held under an id, if nothing is settled. `null`: it never can. */
  private waitFor(cost: number, id?: string): number | null {
    const { algorithm, policy, now } = this;
    if (cost > policy.limit) return null;
    if (algorithm.holdsOnly) return this.waitForEnds(cost, id);
    const later = this.copy();
    const own = id === undefined ? undefined : this.find(id);
    for (let time = now; ; ) {
      const isOwnHeld = own !== undefined && own.end > time;
      const room = policy.limit - cost - later.held + (isOwnHeld ? own.amount : 0);
      const hasPlace = id === undefined || isOwnHeld || later.holds.length - later.first < MAX_HOLDS;
      const next = later.nextEnd();
      if (room >= 0 && hasPlace) {
        const lacking = later.used(time) - room * policy.unitsPerToken;
        const ready = time + (lacking > 0 ? algorithm.wait(later.cells, 0, policy, time, lacking) : 0);
        // What ends at that instant is charged then, which changes nothing, unless it is the hold to be replaced.
        if (ready < next || (ready === next && !(isOwnHeld && own.end === next))) return ready - now;
      }
      time = next;
      later.endUntil(time);
    }
  }

  /** The same for an algorithm whose holds leave no charge: nothing but their ends matters. */
  private waitForEnds(cost: number, id: string | undefined): number {
    const { policy, now, holds } = this;
    const own = id === undefined ? undefined : this.find(id);
    let { held, first: next } = this;
    for (let time = now; ; time = (holds[next] as StoredHold).end) {
      for (; (holds[next]?.end ?? Number.POSITIVE_INFINITY) <= time; next++) held -= (holds[next] as StoredHold).amount;
      const isOwnHeld = own !== undefined && own.end > time;
      const hasPlace = id === undefined || isOwnHeld || holds.length - next < MAX_HOLDS;
      if (hasPlace && cost <= policy.limit - held + (isOwnHeld ? own.amount : 0)) return time - now;
    }
  }

  /** The instant at which the next hold ends or the debt is due. */
  private nextEnd(): number {
    const end = this.holds[this.first]?.end ?? Number.POSITIVE_INFINITY;
    return this.debt && this.debt.dueAt < end ? this.debt.dueAt : end;
  }

  /** Charges the holds that have ended, each as of its own end, and the debt when it is due. */
  private endUntil(time: number): void {
    for (let next = this.nextEnd(); next <= time; next = this.nextEnd()) {
      const hold = this.holds[this.first];
      if (hold?.end !== next) {
        this.charge(0, next);
        continue;
      }
      this.first++;
      this.held -= hold.amount;
      this.charge(hold.amount, next);
    }
  }

  /** Charges an amount and the debt as of an instant. What does not fit becomes the debt, up to one limit. */
  private charge(amount: number, time: number): void {
    const { algorithm, cells, policy } = this;
    if (algorithm.holdsOnly) return;
    const owed = amount + this.takeDebt();
    const used = this.used(time);
    const fit = Math.min(owed, this.free(time));
    if (fit > 0 || (used > 0 && algorithm.isInFuture(cells, 0, policy, time, used))) {
      algorithm.add(cells, 0, policy, time, used, fit);
    }
    const rest = Math.min(owed - fit, policy.limit);
    this.forgiven += owed - fit - rest;
    if (rest === 0) return;
    const lacking = this.used(time) - (policy.limit - rest) * policy.unitsPerToken;
    this.debt = { amount: rest, dueAt: time + algorithm.wait(cells, 0, policy, time, lacking) };
    this.held += rest;
  }

  /** Removes the debt and returns its amount. */
  private takeDebt(): number {
    const amount = this.debt?.amount ?? 0;
    this.debt = undefined;
    this.held -= amount;
    return amount;
  }

  /** Under another plan than the one it was made with, a debt is at most one limit, and due when it fits. */
  private reviewDebt(debt: Debt): void {
    const { algorithm, cells, policy, now } = this;
    const amount = Math.min(debt.amount, policy.limit);
    this.held += amount - debt.amount;
    const lacking = this.used(now) - (policy.limit - amount) * policy.unitsPerToken;
    const dueAt = lacking > 0 ? Math.min(debt.dueAt, now + algorithm.wait(cells, 0, policy, now, lacking)) : now;
    this.debt = { amount, dueAt };
    this.endUntil(now);
  }

  /** Clamps a state dated in the future, and returns whether that changed it. */
  private clampToNow(): boolean {
    const { algorithm, cells, policy, now } = this;
    const used = this.used(now);
    if (used === 0 || !algorithm.isInFuture(cells, 0, policy, now, used)) return false;
    const before = String(cells);
    algorithm.add(cells, 0, policy, now, used, 0);
    return String(cells) !== before;
  }

  /** A bucket with nothing in use is an untouched one. */
  private clearIfUnused(): void {
    if (this.algorithm.holdsOnly || this.used(this.now) > 0) return;
    if (this.algorithm.list) (this.cells[0] as number[]).length = 0;
    else (this.cells as number[]).fill(0);
  }

  private used(time: number): number {
    return this.algorithm.used(this.cells, 0, this.policy, time);
  }

  /** The cost that would fit without holds. */
  private free(time: number): number {
    const { capacityUnits, unitsPerToken } = this.policy;
    return Math.max(0, Math.floor((capacityUnits - this.used(time)) / unitsPerToken));
  }

  /** Whether a cost fits beside a held amount. Compared in costs first, so that every step is exact. */
  private leavesRoom(cost: number, held: number): boolean {
    const room = this.policy.limit - cost - held;
    return room >= 0 && this.used(this.now) <= room * this.policy.unitsPerToken;
  }

  private find(id: string): StoredHold | undefined {
    for (let i = this.first; i < this.holds.length; i++) if (this.holds[i]?.id === id) return this.holds[i];
    return undefined;
  }

  private remove(id: string): boolean {
    const own = this.find(id);
    if (!own) return false;
    this.holds = this.holds.slice(this.first).filter((hold) => hold !== own);
    this.first = 0;
    this.held -= own.amount;
    return true;
  }

  private copy(): HeldBucket {
    const copy: HeldBucket = Object.create(HeldBucket.prototype);
    Object.assign(copy, this);
    copy.cells = this.algorithm.list ? [[...(this.cells[0] as number[])]] : [...(this.cells as number[])];
    return copy;
  }

  /** The same bucket as if all holds were cancelled. The debt stays. */
  private withoutHolds(): HeldBucket {
    const copy = this.copy();
    copy.first = copy.holds.length;
    copy.held = copy.debt?.amount ?? 0;
    return copy;
  }
}

/** An allowed decision, without a spread: this is most of the cost of a hold in memory. */
function allowedWith({ policy, limit, remaining, resetAfterMs, nextAfterMs, held }: DecisionFields): Decision {
  if (held === undefined) return { allowed: true, policy, limit, remaining, resetAfterMs, nextAfterMs };
  return { allowed: true, policy, limit, remaining, resetAfterMs, nextAfterMs, held };
}

/** A copy of the algorithm's own state. */
function cellsOf(base: readonly number[], { list, width }: Algorithm): Cells {
  if (list) return [[...base]];
  return base.length > 0 ? [...base] : new Array<number>(width).fill(0);
}
