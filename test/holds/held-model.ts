/**
 * A slow and exact reference implementation of buckets with holds: BigInt arithmetic, time that advances from one event to
 * the next, and no computed waits. A claimed wait is tried instead: at its instant, and 1 ms before.
 */
import { ALGORITHM_MODELS, type AlgorithmModel, type Rule } from "../algorithm-models.ts";
import type { HeldAlgorithm } from "./held-samples.ts";

interface ModelHold {
  readonly id: string;
  readonly amount: bigint;
  readonly end: bigint;
}

/** One key. The methods that change it expect a key that `viewAt` returned. */
export class HeldModel {
  holds: readonly ModelHold[] = [];
  debt = 0n;
  /** The first instant at which the debt fits. */
  dueAt = 0n;
  /** When the key was last written or viewed. */
  at = 0n;
  /** Whether it was dated in the future when it was viewed. */
  wasInFuture = false;
  /** What the last charge did not charge. */
  forgiven = 0n;
  private base: unknown;
  /** `undefined`: concurrency, whose only state is holds. */
  private readonly algorithm: AlgorithmModel<unknown> | undefined;
  private readonly maxHolds: number;

  constructor(name: HeldAlgorithm, maxHolds: number) {
    this.algorithm = name === "concurrency" ? undefined : ALGORITHM_MODELS[name];
    this.base = this.algorithm?.empty;
    this.maxHolds = maxHolds;
  }

  copy(): HeldModel {
    return Object.assign(Object.create(HeldModel.prototype) as HeldModel, this);
  }

  /** The key as of `now`, which may be before its last write. */
  viewAt(rule: Rule, now: bigint): HeldModel {
    const view = this.copy();
    const back = this.isHeld && now < this.at ? this.at - now : 0n;
    view.holds = this.holds.map((hold) => ({ ...hold, end: hold.end - back }));
    view.dueAt -= back;
    view.advanceTo(rule, now);
    view.wasInFuture ||= back > 0n;
    // A debt that another plan has made: under this one it is at most one limit, and due once it fits.
    if (view.debt > rule.limit) view.debt = rule.limit;
    if (view.debt > 0n) {
      const most = (rule.limit - view.debt) * view.part(rule);
      const fitsAt = view.used(rule) <= most ? now : view.firstInstant(rule, most, now);
      if (fitsAt < view.dueAt) view.dueAt = fitsAt;
      if (view.dueAt <= now) view.charge(rule, 0n, now);
    }
    view.dropUnused(rule);
    return view;
  }

  /** Advances time from event to event: holds that end are charged in full, and debts when they are due. */
  advanceTo(rule: Rule, to: bigint): void {
    for (;;) {
      const events = this.holds.map(({ end }) => end);
      if (this.debt > 0n) events.push(this.dueAt);
      const next = events.reduce((least, time) => (time < least ? time : least), to + 1n);
      if (next > to) break;
      const ended = this.holds.filter(({ end }) => end === next);
      this.holds = this.holds.filter(({ end }) => end !== next);
      this.charge(
        rule,
        ended.reduce((sum, { amount }) => sum + amount, 0n),
        next,
      );
    }
    this.at = to;
    this.wasInFuture = this.clamp(rule, to);
  }

  /** Sum of all holds and the debt. */
  get held(): bigint {
    return this.holds.reduce((sum, { amount }) => sum + amount, this.debt);
  }

  get isHeld(): boolean {
    return this.holds.length > 0 || this.debt > 0n;
  }

  isEmpty(rule: Rule): boolean {
    return !this.isHeld && this.used(rule) === 0n;
  }

  remaining(rule: Rule): bigint {
    const part = this.part(rule);
    const room = (rule.limit - this.held) * part - this.used(rule);
    return room > 0n ? room / part : 0n;
  }

  fits(rule: Rule, cost: bigint): boolean {
    const part = this.part(rule);
    return cost === 0n || this.used(rule) + (this.held + cost) * part <= rule.limit * part;
  }

  canHold(rule: Rule, id: string, amount: bigint): boolean {
    const own = this.holds.find((hold) => hold.id === id);
    if (own && own.amount >= amount) return true;
    if (!own && this.holds.length >= this.maxHolds) return false;
    const others = this.copy();
    others.remove(id);
    return others.fits(rule, amount);
  }

  take(rule: Rule, cost: bigint): void {
    if (this.algorithm) this.base = this.algorithm.add(this.read(rule, this.at), rule, cost, this.at);
  }

  hold(id: string, amount: bigint, forMs: bigint): void {
    this.remove(id);
    this.holds = [...this.holds, { id, amount, end: this.at + forMs }];
  }

  settle(rule: Rule, id: string, actual: bigint): boolean {
    if (!this.remove(id)) return false;
    this.charge(rule, actual, this.at);
    return true;
  }

  /** Returns whether there was anything to refund. */
  refund(rule: Rule, cost: bigint, grantEndsAt: bigint | undefined): boolean {
    const { algorithm, at } = this;
    if (!algorithm || this.used(rule) === 0n) return false;
    if (grantEndsAt !== undefined && grantEndsAt <= at) return false;
    const ofDebt = cost < this.debt ? cost : this.debt;
    this.debt -= ofDebt;
    const rest = cost - ofDebt;
    const seen = this.read(rule, at);
    if (rest > 0n || cost === 0n) {
      this.base =
        grantEndsAt === undefined
          ? algorithm.refund(seen, rule, rest)
          : algorithm.refundGrant(seen, rule, rest, grantEndsAt, at);
    }
    this.charge(rule, 0n, at);
    return true;
  }

  /** A base that is not in use equals one that was never used. */
  dropUnused(rule: Rule): void {
    if (this.algorithm && this.used(rule) === 0n) this.base = this.algorithm.empty;
  }

  /** Charges what fits. The rest becomes the debt, up to one limit. */
  private charge(rule: Rule, amount: bigint, time: bigint): void {
    const { algorithm } = this;
    if (!algorithm) return;
    this.clamp(rule, time);
    const seen = this.read(rule, time);
    const part = algorithm.part(rule);
    const free = rule.limit * part - algorithm.usedAt(seen, rule, time);
    const owed = amount + this.debt;
    const room = free > 0n ? free / part : 0n;
    const paid = owed < room ? owed : room;
    if (paid > 0n) this.base = algorithm.add(seen, rule, paid, time);
    this.debt = owed - paid < rule.limit ? owed - paid : rule.limit;
    this.forgiven = owed - paid - this.debt;
    this.dueAt = this.debt > 0n ? this.firstInstant(rule, (rule.limit - this.debt) * part, time) : 0n;
  }

  /** The first instant at which at most `most` parts of the base are in use, by binary search. */
  private firstInstant(rule: Rule, most: bigint, from: bigint): bigint {
    const algorithm = this.algorithm as AlgorithmModel<unknown>;
    const seen = this.read(rule, from);
    let [tooEarly, lateEnough] = [from, algorithm.emptyAt(seen, rule, from)];
    while (lateEnough - tooEarly > 1n) {
      const middle = (tooEarly + lateEnough) >> 1n;
      if (algorithm.usedAt(seen, rule, middle) <= most) lateEnough = middle;
      else tooEarly = middle;
    }
    return lateEnough;
  }

  /** Clamps a base dated in the future, and returns whether it was. */
  private clamp(rule: Rule, now: bigint): boolean {
    if (!this.algorithm?.isInFuture(this.base, rule, now)) return false;
    this.base = this.read(rule, now);
    return true;
  }

  private read(rule: Rule, now: bigint): unknown {
    return (this.algorithm as AlgorithmModel<unknown>).read(this.base, rule, now);
  }

  private used(rule: Rule): bigint {
    return this.algorithm?.usedAt(this.read(rule, this.at), rule, this.at) ?? 0n;
  }

  private part(rule: Rule): bigint {
    return this.algorithm?.part(rule) ?? 1n;
  }

  private remove(id: string): boolean {
    const others = this.holds.filter((hold) => hold.id !== id);
    const isFound = others.length < this.holds.length;
    this.holds = others;
    return isFound;
  }
}
