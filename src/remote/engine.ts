/**
 * The engine of a store that is called over the network, and can fail: denial cache, deadline, circuit breaker, one call of
 * the store, and what happens without it.
 */

import { monotonicMs } from "../base/clock.ts";
import { SluiceError } from "../base/errors.ts";
import { shared } from "../base/shared-state.ts";
import {
  type Act,
  type Apply,
  deadlineOf,
  type Engine,
  observeStep,
  type PartCharge,
  type PartGroup,
  runBefore,
  type Step,
  syncEngine,
} from "../core/apply.ts";
import type { Decision } from "../core/decision.ts";
import { recordUnknownGrant } from "../core/grant.ts";
import { isStoreFailure, isSync, type Store } from "../core/store.ts";
import { denialCacheOf } from "./denial-cache.ts";
import { healthOf } from "./store-health.ts";
import { emitStoreWarning } from "./store-reports.ts";
import { applyElsewhere, withoutStore } from "./without-store.ts";

const engines = /* @__PURE__ */ shared("engines", () => new WeakMap<Store, Engine>());

/** The engine of a store. */
export function engineOf(store: Store): Engine {
  let engine = engines.get(store);
  if (!engine) engines.set(store, (engine = isSync(store) ? syncEngine(store) : remoteEngine(store)));
  return engine;
}

function remoteEngine(store: Store): Engine {
  const health = healthOf(store);
  const steps: readonly Step[] = [observeStep, denialCacheOf(store)];
  const apply: Apply = (groups, act, due) => {
    if (act.source !== undefined) return applyElsewhere(store, groups, act.source);
    const sentAt = monotonicMs();
    const known = runBefore(steps, groups, act, sentAt);
    if (known) return known;
    const [[{ key }]] = groups as [[PartCharge]];
    return health.attempt(
      store,
      key,
      due ?? sentAt + deadlineOf(groups),
      (call) => store.apply(groups, call),
      (reply) => {
        for (const group of groups) {
          for (const charge of group) if (charge.context.onEvent || charge.observed) emitStoreWarning(charge);
        }
        let decisions: Decision[][] = [];
        try {
          if (isStoreFailure(reply)) return (decisions = withoutStore(store, groups, act, reply));
          return (decisions = record(groups, act, reply));
        } finally {
          for (const step of steps) step.after?.(groups, act, decisions, sentAt);
        }
      },
    );
  };
  return {
    store,
    syncStore: undefined,
    steps,
    apply,
    inspect: (policy, key, due) =>
      health.attempt(
        store,
        key,
        due,
        () => store.inspect(policy, key),
        (reply) => {
          if (isStoreFailure(reply)) throw reply.error;
          return reply;
        },
      ),
  };
}

/** Records what the store has applied: grants without a known end, and holds. */
function record(groups: readonly PartGroup[], act: Act, decisions: Decision[][]): Decision[][] {
  for (let g = 0; g < groups.length; g++) {
    const group = groups[g] as PartGroup;
    const own = decisions[g];
    if (own?.length !== group.length) {
      // Nobody reads the decisions on refunds and resets, which the store has applied.
      if (group.every(({ mode }) => mode === "refund" || mode === "reset")) continue;
      throw missingDecision();
    }
    let isAdmitted = true;
    for (let i = 0; i < group.length; i++) {
      const decision = own[i] as Decision;
      const { mode, cost } = group[i] as PartCharge;
      if (!decision.allowed) isAdmitted = false;
      else if (mode === "take") recordUnknownGrant(decision, cost);
    }
    if (isAdmitted && act.applied) for (const charge of group) act.applied(charge);
  }
  return decisions;
}

function missingDecision(): SluiceError {
  const message = "The store must return a decision for every charge. Check its apply() with storeSuite.";
  return new SluiceError("invalid-option", message, { option: "store", expected: "a decision for every charge" });
}
