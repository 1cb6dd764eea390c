/**
 * Holds: amounts of a bucket that are reserved under an id. A held amount can't be spent and doesn't refill. It is charged
 * when it is settled (the actual cost), or when the hold ends (in full). So over any time, no more is used than the policy
 * allows, whenever between hold and settlement the work is done.
 *
 * What doesn't fit when it is charged becomes a debt, which is held until it fits: no algorithm needs code for debts. All
 * of this is the same for every algorithm. Their functions are called with the instant at which a hold ended.
 */
import type { Algorithm, Cells, CompiledPolicy } from "../core/compiled-policy.ts";
import { type Debt, isHeldState, type State, type StoredHold } from "../core/state.ts";

/** The holds, the debt and the base of a bucket at one instant, and what happens to them. */
export abstract class HeldLedger {
  /** Sum of all holds and the debt. */
  held = 0;
  /** What the settlement did not charge, because the debt is at most one limit. */
  forgiven = 0;
  protected readonly policy: CompiledPolicy;
  protected readonly algorithm: Algorithm;
  protected readonly now: number;
  protected cells: Cells;
  /** Ordered by end, then age. Those before `first` have ended. */
  protected holds: readonly StoredHold[];
  protected first = 0;
  protected debt: Debt | undefined;
  /** Whether the stored state is dated in the future, because the clock has stepped back. */
  readonly isInFuture: boolean;

  constructor(state: State | undefined, policy: CompiledPolicy, now: number) {
    this.policy = policy;
    this.algorithm = policy.algorithm;
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
    if (!own && this.holds.length - this.first >= this.policy.maxHolds) return false;
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

  /** The instant at which the next hold ends or the debt is due. */
  protected nextEnd(): number {
    const end = this.holds[this.first]?.end ?? Number.POSITIVE_INFINITY;
    return this.debt && this.debt.dueAt < end ? this.debt.dueAt : end;
  }

  /** Charges the holds that have ended, each as of its own end, and the debt when it is due. */
  protected endUntil(time: number): void {
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
  protected charge(amount: number, time: number): void {
    const { algorithm, cells, policy } = this;
    // Before the return: a damaged value may contain a debt, and the loop would never end.
    const owed = amount + this.takeDebt();
    if (algorithm.holdsOnly) return;
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
  protected takeDebt(): number {
    const amount = this.debt?.amount ?? 0;
    this.debt = undefined;
    this.held -= amount;
    return amount;
  }

  /** Under another plan than the one it was made with, a debt is at most one limit, and due when it fits. */
  protected reviewDebt(debt: Debt): void {
    const { algorithm, cells, policy, now } = this;
    const amount = Math.min(debt.amount, policy.limit);
    this.held += amount - debt.amount;
    const lacking = this.used(now) - (policy.limit - amount) * policy.unitsPerToken;
    const dueAt = lacking > 0 ? Math.min(debt.dueAt, now + algorithm.wait(cells, 0, policy, now, lacking)) : now;
    this.debt = { amount, dueAt };
    this.endUntil(now);
  }

  /** Clamps a state dated in the future, and returns whether that changed it. */
  protected clampToNow(): boolean {
    const { algorithm, cells, policy, now } = this;
    const used = this.used(now);
    if (used === 0 || !algorithm.isInFuture(cells, 0, policy, now, used)) return false;
    const before = String(cells);
    algorithm.add(cells, 0, policy, now, used, 0);
    return String(cells) !== before;
  }

  /** A bucket with nothing in use is an untouched one. */
  protected clearIfUnused(): void {
    if (this.algorithm.holdsOnly || this.used(this.now) > 0) return;
    if (this.algorithm.list) (this.cells[0] as number[]).length = 0;
    else (this.cells as number[]).fill(0);
  }

  protected used(time: number): number {
    return this.algorithm.used(this.cells, 0, this.policy, time);
  }

  /** The cost that would fit without holds. */
  protected free(time: number): number {
    const { capacityUnits, unitsPerToken } = this.policy;
    return Math.max(0, Math.floor((capacityUnits - this.used(time)) / unitsPerToken));
  }

  /** Whether a cost fits beside a held amount. Compared in costs first, so that every step is exact. */
  protected leavesRoom(cost: number, held: number): boolean {
    const room = this.policy.limit - cost - held;
    return room >= 0 && this.used(this.now) <= room * this.policy.unitsPerToken;
  }

  protected find(id: string): StoredHold | undefined {
    for (let i = this.first; i < this.holds.length; i++) if (this.holds[i]?.id === id) return this.holds[i];
    return undefined;
  }

  protected remove(id: string): boolean {
    const own = this.find(id);
    if (!own) return false;
    this.holds = this.holds.slice(this.first).filter((hold) => hold !== own);
    this.first = 0;
    this.held -= own.amount;
    return true;
  }
}

/** A copy of the algorithm's own state. */
function cellsOf(base: readonly number[], { list, width }: Algorithm): Cells {
  if (list) return [[...base]];
  return base.length > 0 ? [...base] : new Array<number>(width).fill(0);
}
