/** The contract test suite for a store: the limiter suite on that store, and cases for groups of charges. */
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { Store } from "../core/store.ts";
import { bareLimiter } from "./bare-limiter.ts";
import { check } from "./check.ts";
import { describeRateLimiter, runLaw, type SuiteOptions } from "./describe-rate-limiter.ts";
import { groupLaws } from "./laws/group-laws.ts";
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
}

/** Registers the contract tests for stores made by `create`. A store that passes decides like the built-in ones. */
export function storeSuite(name: string, create: CreateStore, options: StoreSuiteOptions = {}): void {
  const { describe, it } = resolveRunner(options);
  const { algorithms = ALGORITHMS, level = "exact", seed = Math.floor(Math.random() * 2 ** 31) } = options;
  const fresh = async (): Promise<StoreSubject> => toStoreSubject(await create());

  describe(`Store: ${name}`, () => {
    if (level === "approximate") {
      for (const algorithm of algorithms) {
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
      { ...options, algorithms, seed },
    );
    for (const algorithm of algorithms) {
      describe(`${algorithm}, charges and groups`, () => {
        for (const law of [...groupLaws, ...storeLaws]) {
          if (law.needs && (options.time ?? "fake") !== law.needs) continue;
          it(law.title, () =>
            runLaw(law, {
              algorithm,
              random: randomFrom(seed),
              create: async () => (await fresh()).store,
              createTimed: fresh,
            }),
          );
        }
      });
    }
  });
}

function toStoreSubject(created: Store | StoreSubject): StoreSubject {
  return "store" in created ? created : { store: created };
}
