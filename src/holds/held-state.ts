/** Decisions on a bucket with holds: what is left, and how long to wait while holds end one after the other. */
import type { Decision, DecisionFields } from "../core/decision.ts";
import type { StoredHold } from "../core/state.ts";
import { HeldLedger } from "./held-ledger.ts";

/** A bucket with holds at one instant. Changes are made to a copy, and `state` returns it. */
export class HeldBucket extends HeldLedger {
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
      const hasPlace = id === undefined || isOwnHeld || later.holds.length - later.first < policy.maxHolds;
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
      const hasPlace = id === undefined || isOwnHeld || holds.length - next < policy.maxHolds;
      if (hasPlace && cost <= policy.limit - held + (isOwnHeld ? own.amount : 0)) return time - now;
    }
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
