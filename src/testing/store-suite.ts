/** The contract of a store as a suite: the laws of a limiter on it, and the laws of stores. */
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { Store } from "../core/store.ts";
import { bareLimiter } from "./bare-limiter.ts";
import { check } from "./check.ts";
import { describeRateLimiter, type SuiteOptions, tryLaw } from "./describe-rate-limiter.ts";
import { groupLaws } from "./laws/group-laws.ts";
import { storeLaws } from "./laws/store-laws.ts";
import { randomFrom } from "./random.ts";
import { runnerOf } from "./runner.ts";
import { ALGORITHMS, policyOf, type Subject } from "./subject.ts";

/** A store under test. */
export interface StoreSubject {
  /** The store, with nothing in it. */
  readonly store: Store;
  /** Lets time pass, as in {@link Subject}. */
  advance?(ms: number): void | Promise<void>;
  /** Loses the process and its connections and gives a store on the same state again. */
  restart?(): Store | Promise<Store>;
  /** The most keys that the store keeps, if it is bounded. */
  readonly maxKeys?: number;
}

/** Makes a fresh store. */
export type CreateStore = () => Store | StoreSubject | Promise<Store | StoreSubject>;

/** How a store's suite is run. */
export interface StoreSuiteOptions extends SuiteOptions {
  /** What the store claims to be. An approximate one has to say so in every decision, and is held to little else. Default: `"exact"`. */
  level?: "exact" | "approximate";
}

/** Certifies a store: runs every law on limiters and groups of charges on stores made by `create`. */
export function storeSuite(name: string, create: CreateStore, options: StoreSuiteOptions = {}): void {
  const { describe, it } = runnerOf(options);
  const { algorithms = ALGORITHMS, level = "exact", seed = Math.floor(Math.random() * 2 ** 31) } = options;
  const fresh = async (): Promise<StoreSubject> => subjectOf(await create());

  describe(`Store: ${name}`, () => {
    if (level === "approximate") {
      for (const algorithm of algorithms) {
        it(`${algorithm}: says that it is approximate`, async () => {
          const { store } = await fresh();
          const limiter = bareLimiter(policyOf(algorithm, 10, 86_400_000), store);
          check(limiter.consistency === "approximate", "consistency does not say approximate");
          for (const decision of [await limiter.consume("k"), await limiter.consume("k", 11)]) {
            check(decision.approximate === true, "a decision does not say approximate");
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
      describe(`${algorithm}, laws of stores`, () => {
        for (const law of [...groupLaws, ...storeLaws]) {
          if (law.needs && (options.time ?? "fake") !== law.needs) continue;
          it(law.title, () =>
            tryLaw(law, {
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

function subjectOf(made: Store | StoreSubject): StoreSubject {
  return "store" in made ? made : { store: made };
}
