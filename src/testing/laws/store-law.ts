/** The shape of a contract case for stores, and helpers that most cases use. */

import type { Charge, Group } from "../../core/charge.ts";
import type { CompiledPolicy, Mode } from "../../core/compiled-policy.ts";
import type { Decision } from "../../core/decision.ts";
import type { AlgorithmName, Policy } from "../../core/policy.ts";
import type { Store } from "../../core/store.ts";
import { holdTerms } from "../../holds/hold-terms.ts";
import { compilePolicy } from "../../policy/compile-policy.ts";
import type { Random } from "../random.ts";
import { policyOf } from "../subject.ts";

/** Creates the stores for a law. */
export interface StoreBench {
  readonly algorithm: AlgorithmName;
  readonly random: Random;
  /** Creates an empty store. */
  create(): Promise<Store>;
  /** Creates an empty store whose time can be advanced. */
  createTimed(): Promise<{ readonly store: Store; advance?(ms: number): void | Promise<void> }>;
}

/** One case of the store contract. Its title completes "it ...". */
export interface StoreLaw {
  readonly title: string;
  /** Required ability: time that moves by exact milliseconds. Default: none. */
  readonly needs?: "fake";
  run(bench: StoreBench): Promise<void>;
}

export const DAY: number = 86_400_000;

/** A policy that does not refill while a case runs. */
export function compiledPolicy(
  bench: StoreBench,
  limit: number,
  name: string,
  more: Partial<Policy> = {},
): CompiledPolicy {
  return spannedPolicy(bench, limit, DAY, name, more);
}

/** A policy that is fully restored `spanMs` after it was used up (twice that for sliding-window). */
export function spannedPolicy(
  { algorithm }: StoreBench,
  limit: number,
  spanMs: number,
  name: string,
  more: Partial<Policy> = {},
): CompiledPolicy {
  return compilePolicy({ ...policyOf(algorithm, limit, spanMs, name), ...more } as Policy);
}

/** One charge. */
export function charge(policy: CompiledPolicy, key: string, cost = 1, mode: Mode = "take"): Charge {
  return { policy, key, cost, mode };
}

/** A charge that holds `amount` under an id. */
export function holdCharge(policy: CompiledPolicy, key: string, amount: number, id = "h", forMs = 60_000): Charge {
  return { policy, key, cost: amount, mode: "hold", hold: holdTerms(id, forMs) };
}

/** A charge that settles a hold with the actual cost. */
export function settleCharge(policy: CompiledPolicy, key: string, actual: number, id = "h"): Charge {
  return { policy, key, cost: actual, mode: "settle", hold: holdTerms(id) };
}

/** Applies one group. */
export async function applyGroup(store: Store, ...group: Group): Promise<Decision[]> {
  const [decisions] = await store.apply([group]);
  return decisions as Decision[];
}

/** Applies one charge. */
export async function applyOne(store: Store, charge: Charge): Promise<Decision> {
  return (await applyGroup(store, charge))[0] as Decision;
}

/** The tokens that a key has left. */
export async function remainingOf(store: Store, policy: CompiledPolicy, key: string): Promise<number> {
  const [[decision] = []] = await store.apply([[charge(policy, key, 0, "peek")]]);
  return (decision as Decision).remaining;
}

/** Two keys that one group may contain: on a sharded store, keys of one shard. */
export function keysOfOneShard(store: Store): [string, string] {
  const shard = (key: string): number | string => store.shardOf?.(key) ?? 0;
  for (let i = 0; i < 1_000_000; i++) if (shard(`b${i}`) === shard("a")) return ["a", `b${i}`];
  throw new Error(
    "No two keys of this store share a shard, so it cannot decide groups. Use describeRateLimiter instead of storeSuite.",
  );
}
