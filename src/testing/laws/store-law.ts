/** What a law of stores is, and what most of them need. */

import { compilePolicy } from "../../algorithms/compile-policy.ts";
import type { Charge, Mode } from "../../core/charge.ts";
import type { CompiledPolicy } from "../../core/compiled-policy.ts";
import type { Decision } from "../../core/decision.ts";
import type { AlgorithmName, Policy } from "../../core/policy.ts";
import type { Store } from "../../core/store.ts";
import type { Random } from "../random.ts";
import { policyOf } from "../subject.ts";

/** What a law of stores is tried on. */
interface StoreBench {
  readonly algorithm: AlgorithmName;
  readonly random: Random;
  /** A fresh store. */
  create(): Promise<Store>;
  /** A fresh store, and how to move its time. */
  createTimed(): Promise<{ readonly store: Store; advance?(ms: number): void | Promise<void> }>;
}

/** One law of stores. */
export interface StoreLaw {
  readonly title: string;
  /** Whether it needs time that can be moved. */
  readonly needs?: "fake";
  run(bench: StoreBench): Promise<void>;
}

export const DAY: number = 86_400_000;

/** A policy that do not refill while a case runs. */
export function compiledPolicy(
  { algorithm }: StoreBench,
  limit: number,
  name: string,
  more: Partial<Policy> = {},
): CompiledPolicy {
  return compilePolicy({ ...policyOf(algorithm, limit, DAY, name), ...more } as Policy);
}

/** One charge. */
export function charge(policy: CompiledPolicy, key: string, cost = 1, mode: Mode = "take"): Charge {
  return { policy, key, cost, mode };
}

/** What is left of a key, by a look. */
export async function left(store: Store, policy: CompiledPolicy, key: string): Promise<number> {
  const [[decision] = []] = await store.apply([[charge(policy, key, 0, "peek")]]);
  return (decision as Decision).remaining;
}

/** Two keys that one group may name: in a store of several parts, two of one part. */
export function together(store: Store): [string, string] {
  const part = (key: string): number | string => store.shardOf?.(key) ?? 0;
  for (let i = 0; i < 1_000_000; i++) if (part(`b${i}`) === part("a")) return ["a", `b${i}`];
  throw new Error("no two keys of this store can be named in one group: describeRateLimiter fits it better");
}
