/**
 * The one way from limiters to a store. Every decision of every limiter is made by a port: by a synchronous store
 * directly, by any other with denial cache, deadline, circuit breaker and fallback.
 */
import type { Charge } from "../core/charge.ts";
import { monotonicMs } from "../core/clock.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import type { Decision, DecisionSource, Denied, Inspection } from "../core/decision.ts";
import { SluiceError } from "../core/errors.ts";
import { recordUnknownGrant } from "../core/grant.ts";
import { shared } from "../core/shared-state.ts";
import { isSync, type Store } from "../core/store.ts";
import { type EventTarget, emit } from "../core/events.ts";
import type { PartCharge } from "./failure-policy.ts";
import { decideWithout } from "./fallback.ts";
import { healthOf, isStoreFailure, type StoreFailure, type StoreHealth } from "./store-health.ts";
import { memoryOf, type StoreMemory } from "./store-memory.ts";
import { reportsOf } from "./store-reports.ts";
import type { HoldActs, JointCharge } from "../core/limiter-part.ts";
import { type PortReply, type StorePort, SyncPort } from "../core/sync-port.ts";

const ports = /* @__PURE__ */ shared("ports", () => new WeakMap<Store, StorePort>());

/** The port of a store. */
export function portOf(store: Store): StorePort {
  let port = ports.get(store);
  if (!port) ports.set(store, (port = isSync(store) ? new SyncPort(store) : new RemotePort(store)));
  return port;
}

/** A store that is called over the network, and can fail. */
class RemotePort implements StorePort {
  readonly store: Store;
  readonly syncStore = undefined;
  private readonly health: StoreHealth;
  private readonly memory: StoreMemory;

  constructor(store: Store) {
    this.store = store;
    this.health = healthOf(store);
    this.memory = memoryOf(store);
  }

  applyOne(charge: PartCharge): Promise<Decision> {
    const now = monotonicMs();
    const charges = [charge];
    const { localDenialMs } = charge.failurePolicy;
    const isCached = isCacheable(charge) && charge.cost > 0 && localDenialMs > 0;
    const denial = isCached ? this.memory.cachedDenial(charges, now, localDenialMs, false) : undefined;
    return denial ? Promise.resolve(denial) : this.sendOne(charge, charges, now, isCached);
  }

  async apply(charges: readonly PartCharge[], due: number): Promise<PortReply> {
    const [reply] = await this.applyGroups([charges], due);
    return reply as PortReply;
  }

  async applyGroups(groups: readonly (readonly PartCharge[])[], due: number): Promise<PortReply[]> {
    const { store } = this;
    const sent = groups.map((charges) => charges.map(toCharge));
    const [[first] = []] = sent;
    const reply = await this.health.attempt(store, (first as Charge).key, due, (call) => store.apply(sent, call));
    for (const charges of groups) {
      for (const { failurePolicy, policy } of charges) emitStoreWarning(store, failurePolicy, policy.name);
    }
    // Of all groups first: deciding one without the store may throw.
    if (isStoreFailure(reply)) {
      for (const charges of groups) for (const charge of charges) actsOf(charge)?.failed(charge as JointCharge, reply);
    }
    return groups.map((charges, i) => {
      if (isStoreFailure(reply)) {
        return { decisions: this.applyWithout(charges, reply), failure: reply };
      }
      const decisions = reply[i];
      if (decisions?.length !== charges.length) throw missingDecision();
      this.recordApplied(charges, decisions);
      return { decisions };
    });
  }

  /** Records what the store has applied: grants without a known end, and holds. */
  private recordApplied(charges: readonly PartCharge[], decisions: readonly Decision[]): void {
    const isAdmitted = decisions.every(({ allowed }) => allowed);
    for (const [i, charge] of charges.entries()) {
      if (charge.mode === "take") recordUnknownGrant(decisions[i] as Decision, charge.cost);
      if (isAdmitted) actsOf(charge)?.applied(charge as JointCharge);
    }
  }

  applyWithout(charges: readonly PartCharge[], failure: StoreFailure): Decision[] {
    return decideWithout(this.store, charges, failure, monotonicMs());
  }

  cachedDenial(charges: readonly PartCharge[], now: number, isJoint: boolean): Denied | undefined {
    const forMs = cacheMs(charges);
    return forMs > 0 ? this.memory.cachedDenial(charges, now, forMs, isJoint) : undefined;
  }

  recordDecision(charges: readonly PartCharge[], decision: Decision, sentAt: number, isJoint: boolean): void {
    if (cacheMs(charges) > 0) this.memory.recordDecision(charges, decision, sentAt, isJoint);
  }

  async refund(refunds: readonly PartCharge[], mayThrow: boolean): Promise<void> {
    const { store } = this;
    const due = monotonicMs() + Math.min(...refunds.map(({ failurePolicy }) => failurePolicy.deadlineMs));
    // Groups of one: refunding one grant of a long sliding log is as much as one call should do.
    const groups = refunds.map((refund) => [toCharge(refund)]);
    const reply = await this.memory.invalidating(refunds, () =>
      this.health.attempt(store, (refunds[0] as PartCharge).key, due, (call) => store.apply(groups, call)),
    );
    if (!isStoreFailure(reply)) return;
    const { error } = reply;
    if (mayThrow && refunds.some(({ failurePolicy }) => failurePolicy.onStoreError === "throw")) throw error;
    for (const { failurePolicy, policy, cost } of refunds) {
      emit(failurePolicy, { type: "refund-lost", policy: policy.name, cost, error });
    }
  }

  async send(charge: PartCharge): Promise<Decision | StoreFailure> {
    const { store, memory } = this;
    const due = monotonicMs() + charge.failurePolicy.deadlineMs;
    const groups = [[toCharge(charge)]];
    const reply = await memory.invalidating([charge], () =>
      this.health.attempt(store, charge.key, due, (call) => store.apply(groups, call)),
    );
    if (isStoreFailure(reply)) return reply;
    return reply[0]?.[0] ?? Promise.reject(missingDecision());
  }

  applyElsewhere(charge: PartCharge, source: DecisionSource): Decision {
    const { name, limit } = charge.policy;
    if (source === "local") {
      const local = { ...toCharge(charge), policy: charge.failurePolicy.localPolicy };
      return { ...(this.memory.fallback.applySync([local])[0] as Decision), degraded: true, source };
    }
    const fields = { policy: name, limit, remaining: limit, resetAfterMs: 0, nextAfterMs: 0 };
    return { allowed: true, ...fields, degraded: true, source };
  }

  async reset(charge: PartCharge): Promise<void> {
    const { store, memory } = this;
    const { key, failurePolicy } = charge;
    if (memory.hasFallback) memory.fallback.applySync([{ ...charge, policy: failurePolicy.localPolicy }]);
    const due = monotonicMs() + failurePolicy.deadlineMs;
    const reply = await memory.invalidating([charge], () =>
      this.health.attempt(store, key, due, (call) => store.apply([[toCharge(charge)]], call)),
    );
    if (isStoreFailure(reply)) throw reply.error;
  }

  async inspect(policy: CompiledPolicy, key: string, due: number): Promise<Inspection> {
    const reply = await this.health.attempt(this.store, key, due, () => this.store.inspect(policy, key));
    if (isStoreFailure(reply)) throw reply.error;
    return reply;
  }

  /** The same as `apply` for one charge, which is the common case and allocates less. */
  private async sendOne(
    charge: PartCharge,
    charges: readonly PartCharge[],
    sentAt: number,
    isCached: boolean,
  ): Promise<Decision> {
    const { store } = this;
    const { key, cost, failurePolicy } = charge;
    const groups = [[toCharge(charge)]];
    const due = sentAt + failurePolicy.deadlineMs;
    const reply = await this.health.attempt(store, key, due, (call) => store.apply(groups, call));
    emitStoreWarning(store, failurePolicy, charge.policy.name);
    if (isStoreFailure(reply)) {
      actsOf(charge)?.failed(charge as JointCharge, reply);
      return this.applyWithout(charges, reply)[0] as Decision;
    }
    const decision = reply[0]?.[0];
    if (!decision) throw missingDecision();
    if (charge.mode === "take") recordUnknownGrant(decision, cost);
    if (decision.allowed) actsOf(charge)?.applied(charge as JointCharge);
    if (isCached) this.memory.recordDecision(charges, decision, sentAt, false);
    return decision;
  }
}

/** What else has to be done about a charge that holds. */
function actsOf(charge: PartCharge): HoldActs | undefined {
  return (charge as JointCharge).acts;
}

/** Whether a denial of the same key applies to a charge. A hold that may exist already can be replaced by a smaller one. */
function isCacheable({ mode, isNewHold }: PartCharge): boolean {
  return mode === "take" || mode === "penalty" || (mode === "hold" && isNewHold === true);
}

/** The charge alone: a store may serialise it. */
function toCharge({ policy, key, cost, mode, grantEndsAt, hold }: Charge): Charge {
  return { policy, key, cost, mode, grantEndsAt, hold };
}

/** How long a denial of these charges is cached, in ms. */
function cacheMs(charges: readonly PartCharge[]): number {
  let least = Number.POSITIVE_INFINITY;
  for (const { failurePolicy } of charges) least = Math.min(least, failurePolicy.localDenialMs);
  return least;
}

/** Emits the store's own warning, once per change. */
export function emitStoreWarning(store: Store, target: EventTarget, policy: string): void {
  const { onEvent, observed } = target;
  if (!onEvent && !observed) return;
  const reports = reportsOf(store);
  const message = onEvent && reports.nextWarning(store, "onEvent");
  if (message !== undefined) emit({ onEvent }, { type: "warning", policy, message });
  // Without the text of an error, which may contain keys.
  const [observedMessage] = (observed && reports.nextWarning(store, "observer"))?.split(": ") ?? [];
  if (observedMessage !== undefined) {
    emit({ onEvent: undefined, observed }, { type: "warning", policy, message: observedMessage });
  }
}

function missingDecision(): SluiceError {
  const message = "The store must return a decision for every charge. Check its apply() with storeSuite.";
  return new SluiceError("invalid-option", message, { option: "store", expected: "a decision for every charge" });
}
