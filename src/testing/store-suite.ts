/** The contract test suite for a store: the limiter suite on that store, and cases for groups of charges. */

import type { AlgorithmName } from "../core/policy.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { Store } from "../core/store.ts";
import { algorithms as ownAlgorithms } from "../holds/all-algorithms.ts";
import { concurrency } from "../holds/concurrency.ts";
import { compilePolicy } from "../policy/compile-policy.ts";
import { bareLimiter } from "./bare-limiter.ts";
import { check } from "./check.ts";
import { describeRateLimiter, runLaw, type SuiteOptions } from "./describe-rate-limiter.ts";
import { concurrencyLaws } from "./laws/concurrency-laws.ts";
import { groupLaws } from "./laws/group-laws.ts";
import { holdLaws } from "./laws/hold-laws.ts";
import { holdTimeLaws } from "./laws/hold-time-laws.ts";
import { penaltyLaws } from "./laws/penalty-laws.ts";
import type { StoreLaw } from "./laws/store-law.ts";
import { storeLaws } from "./laws/store-laws.ts";
import { randomFrom } from "./random.ts";
import { resolveRunner } from "./runner.ts";
import { ALGORITHMS, policyOf, type Subject } from "./subject.ts";

/** A store under test. */
export interface StoreSubject {
  /** An empty store. */
  readonly store: Store;
  /** Advances time by `ms`, as in {@link Subject}. */
  advance?(ms: number): void | Promise<void>;
  /** Drops process state and connections, and returns a new store on the same data. */
  restart?(): Store | Promise<Store>;
  /** Maximum number of keys in the store, if bounded. */
  readonly maxKeys?: number;
}

/** Creates an empty store. */
export type CreateStore = () => Store | StoreSubject | Promise<Store | StoreSubject>;

/** Options of `storeSuite`. */
export interface StoreSuiteOptions extends SuiteOptions {
  /** The store's `consistency`. The suite only checks that an approximate store marks its decisions. Default: `"exact"`. */
  level?: "exact" | "approximate";
  /**
   * Whether the store supports holds and penalties. `false` omits their cases. Default: a case passes if the store's
   * `check` rejects the mode `hold`.
   */
  holds?: boolean;
}

const ALL: readonly AlgorithmName[] = [...ALGORITHMS, "concurrency", "penalty"];

/** Registers the contract tests for stores made by `create`. A store that passes decides like the built-in ones. */
export function storeSuite(name: string, create: CreateStore, options: StoreSuiteOptions = {}): void {
  const { describe, it } = resolveRunner(options);
  const { algorithms = ALL, level = "exact", holds, seed = Math.floor(Math.random() * 2 ** 31) } = options;
  const rates = algorithms.filter((algorithm) => algorithm !== "concurrency" && algorithm !== "penalty");
  const fresh = async (): Promise<StoreSubject> => toStoreSubject(await create());

  const registerLaws = (algorithm: AlgorithmName, laws: readonly StoreLaw[], needsHolds: boolean): void => {
    for (const law of laws) {
      if (law.needs && (options.time ?? "fake") !== law.needs) continue;
      it(law.title, async () => {
        if (needsHolds && holds === undefined && (await refusesHolds(fresh))) return;
        await runLaw(law, {
          algorithm,
          random: randomFrom(seed),
          create: async () => (await fresh()).store,
          createTimed: fresh,
        });
      });
    }
  };

  // The title names omitted cases: a green run must not suggest that they passed.
  describe(`Store: ${name}${holds === false ? " (without the cases for holds)" : ""}`, () => {
    if (level === "approximate") {
      for (const algorithm of rates) {
        it(`${algorithm}: marks the limiter and every decision as approximate`, async () => {
          const { store } = await fresh();
          const limiter = bareLimiter(policyOf(algorithm, 10, 86_400_000), store);
          check(limiter.consistency === "approximate", "consistency of the limiter is not approximate");
          for (const decision of [await limiter.consume("k"), await limiter.consume("k", 11)]) {
            check(decision.approximate === true, "a decision is not marked approximate");
          }
        });
      }
      return;
    }
    describeRateLimiter(
      name,
      async (policy): Promise<Subject> => {
        const { store, advance, restart, maxKeys } = await fresh();
        return {
          limiter: bareLimiter(policy, store),
          ...(advance ? { advance } : {}),
          ...(restart ? { restart: async (): Promise<RateLimiter> => bareLimiter(policy, await restart()) } : {}),
          ...(maxKeys === undefined ? {} : { maxKeys }),
        };
      },
      { ...options, algorithms: rates, seed },
    );
    for (const algorithm of rates) {
      describe(`${algorithm}, charges and groups`, () => registerLaws(algorithm, [...groupLaws, ...storeLaws], false));
    }
    if (holds === false) return;
    const suffix = holds ? "" : ", if the store supports holds";
    for (const algorithm of rates) {
      if (ownAlgorithms[algorithm].queues) continue;
      describe(`${algorithm}, holds${suffix}`, () => registerLaws(algorithm, [...holdLaws, ...holdTimeLaws], true));
    }
    if (algorithms.includes("concurrency")) {
      describe(`concurrency${suffix}`, () => registerLaws("concurrency", concurrencyLaws, true));
    }
    if (algorithms.includes("penalty")) {
      describe(`penalty${suffix}`, () => registerLaws("penalty", penaltyLaws, true));
    }
  });
}

/** Whether a store rejects holds. */
async function refusesHolds(fresh: () => Promise<StoreSubject>): Promise<boolean> {
  const { store } = await fresh();
  try {
    store.check?.(compilePolicy(concurrency(1)), false, "hold");
    return false;
  } catch (error) {
    if ((error as { code?: unknown }).code === "unsupported") return true;
    throw error;
  }
}

function toStoreSubject(created: Store | StoreSubject): StoreSubject {
  return "store" in created ? created : { store: created };
}
