/** A validated policy in whole numbers, with nothing left to parse. */
import type { AlgorithmName, ResolvedPolicy } from "./policy.ts";

/** The numbers that an algorithm counts with. */
export interface PolicyNumbers {
  /** The largest cost that fits at once. */
  readonly limit: number;
  /** Length of the window in ms; of a bucket, the time to fill it. */
  readonly windowMs: number;
  /** Units per cost of 1. Algorithms count in units, which are whole numbers. */
  readonly unitsPerToken: number;
  /** Units that a bucket refills per ms. 0 for windows, whose budget returns when they end. */
  readonly unitsPerMs: number;
  /** Of a penalty: how long strikes block a key. */
  readonly block?: PenaltyNumbers | undefined;
}

/** How long the strikes of a penalty block a key. */
export interface PenaltyNumbers {
  /** The strike that first blocks the key. */
  readonly strikes: number;
  /** Duration of the first block in ms. */
  readonly firstMs: number;
  /** How many times longer each further block is. */
  readonly factor: number;
  /** Maximum duration of a block in ms. */
  readonly maxMs: number;
  /** The block in ms that each strike causes; 0: none. Further strikes block for as long as the last. */
  readonly durationsMs: readonly number[];
}

/** A policy as stores and algorithms use it. Every algorithm has the same members, so that code which reads them stays fast. */
export interface CompiledPolicy extends PolicyNumbers {
  /** The algorithm. */
  readonly algorithm: AlgorithmName;
  /** The policy's name in decisions. */
  readonly name: string;
  /** Name and prefix. A store has one policy of each, or plans that share it. */
  readonly qualifiedName: string;
  /**
   * Identifies its buckets on a store: algorithm, prefix and name, and of a named policy its window or fill time.
   * Policies with the same window may share buckets. State of a longer one would look like a clock error to a shorter one.
   */
  readonly id: string;
  /** Identifies the policy with its numbers. Plans that share buckets have one `id` and different fingerprints. */
  readonly fingerprint: string;
  /** The limit in units. */
  readonly capacityUnits: number;
  /** Whether it refills continuously, as buckets do. */
  readonly refills: boolean;
  /** Whether other policies may share its buckets. */
  readonly share: boolean;
  /** The frozen public form of the policy. */
  readonly resolved: ResolvedPolicy;
}

/** Identifies a policy with its numbers. */
export function fingerprintOf(id: string, numbers: PolicyNumbers): string {
  const { limit, windowMs, unitsPerMs, unitsPerToken, block } = numbers;
  const blocks = block ? `${block.strikes} ${block.firstMs} ${block.factor} ${block.maxMs} ` : "";
  return `${limit} ${windowMs} ${unitsPerMs} ${unitsPerToken} ${blocks}${id}`;
}
