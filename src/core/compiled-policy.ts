/**
 * A validated policy in whole numbers, with nothing left to parse, and the interface of the algorithm that it brings: how
 * much is in use, how long until some of it is available again, and how a change is recorded. core/step.ts builds
 * every decision from these functions. No clock and no I/O: time is an argument.
 */
import type { Decision, Inspection } from "./decision.ts";
import type { AlgorithmName, Policy, ResolvedPolicy } from "./policy.ts";

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

/**
 * The mode of a charge: it takes its cost, only checks it, refunds it, or resets the bucket. `hold` reserves its cost under
 * an id, and `settle` replaces that hold by the actual cost. `penalty` checks, and takes if another charge of its group is
 * denied. On a penalty, `hold` blocks the key, and `settle` ends the block.
 */
export type Mode = "take" | "peek" | "refund" | "reset" | "hold" | "settle" | "penalty";

/** What a policy limits: a rate, what is held at once, or strikes. */
export type PolicyKind = "rate" | "concurrency" | "penalty";

/** A policy as stores and algorithms use it. Every algorithm has the same members, so that code which reads them stays fast. */
export interface CompiledPolicy extends PolicyNumbers {
  /** The algorithm itself. Its name is `algorithm.name`. */
  readonly algorithm: Algorithm;
  /** Whether it limits a rate, limits what is held at once, or counts strikes. */
  readonly kind: PolicyKind;
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
  /** Maximum number of holds of one key. */
  readonly maxHolds: number;
  /** Whether it refills continuously, as buckets do. */
  readonly refills: boolean;
  /** Whether other policies may share its buckets. */
  readonly share: boolean;
  /** The frozen public form of the policy. */
  readonly resolved: ResolvedPolicy;
}

/**
 * A bucket's state is `width` whole numbers from `cells[at]` on, or one list of them at `cells[at]`. Zeros, or an empty
 * list, are an untouched bucket. The caller owns the cells: the memory store keeps those of all keys in one flat array.
 */
export type Cells = Float64Array | number[] | number[][];

/** An algorithm. Amounts are in units: a cost of 1 is `policy.unitsPerToken` units. */
export interface Algorithm {
  /** Its name in policies. */
  readonly name: AlgorithmName;
  /** How its policies are written. */
  readonly form: PolicyForm;
  /** Number of cells per bucket, at most 8. */
  readonly width: number;
  /** Whether its one cell is a list. */
  readonly list?: true;
  /** Whether an allowed charge has to wait for those before it, as in a queue. */
  readonly queues?: true;
  /** Whether its only state is holds, and a hold that is over leaves no charge. */
  readonly holdsOnly?: true;
  /** How `consume` charges a cost, if it does not take it: the mode and the cost. Throws if it can't be used. */
  consume?(policy: CompiledPolicy, cost: number): { readonly mode: Mode; readonly cost: number };
  /** A whole `take` in one function, if the generic one of step.ts is too slow. */
  take?(cells: Cells, at: number, policy: CompiledPolicy, cost: number, now: number): Decision;
  /** Units in use. */
  used(cells: Cells, at: number, policy: CompiledPolicy, now: number): number;
  /** Milliseconds until `amount` of the units in use is available again. */
  wait(cells: Cells, at: number, policy: CompiledPolicy, now: number, amount: number): number;
  /** Milliseconds until nothing is in use. Called only if something is. */
  reset(cells: Cells, at: number, policy: CompiledPolicy, now: number, used: number): number;
  /**
   * Whether the state is dated in the future, because the clock has stepped back. It is then clamped to the present, so
   * that no client waits for longer than a window.
   */
  isInFuture(cells: Cells, at: number, policy: CompiledPolicy, now: number, used: number): boolean;
  /**
   * Records that `cost` was taken while `used` was in use, and clamps a state dated in the future. `used` must be their sum
   * afterwards: the decision is built from it. An algorithm that counts otherwise has a `take` of its own.
   */
  add(cells: Cells, at: number, policy: CompiledPolicy, now: number, used: number, cost: number): void;
  /**
   * Records that `cost` was refunded, or all that is in use if that is less. If the end of the grant is known, which is
   * later than `now`, it refunds no more than is still in use of that grant.
   */
  refund(
    cells: Cells,
    at: number,
    policy: CompiledPolicy,
    now: number,
    used: number,
    cost: number,
    grantEndsAt: number | undefined,
  ): void;
  /** Blocks the key for at least `forMs`. Only of penalties. */
  block?(cells: Cells, at: number, now: number, forMs: number): void;
  /** Ends a block and returns whether there was one. Only of penalties. */
  unblock?(cells: Cells, at: number, now: number): boolean;
  /** What `inspect` returns besides the numbers of a decision. An empty state is an untouched bucket. */
  describe?(state: readonly number[], policy: CompiledPolicy, now: number): Partial<Inspection>;
  /** How much longer a denied cost waits in ms if it is `extra` greater. Absent: that depends on the state. */
  extraWaitMs?(policy: CompiledPolicy, extra: number): number;
  /** Whether a list of whole numbers is a state of this algorithm. Only for list states; others are checked by `width`. */
  isList?(state: readonly number[]): boolean;
  /**
   * How stores that are eventually consistent merge counts that were made apart: as the start of a window and its
   * counters, or as a list of ends and costs. Absent: such stores don't support the algorithm.
   */
  readonly mergesAs?: "window" | "log";
}

/** The options, text form and numbers of one algorithm's policies. */
export interface PolicyForm {
  /** Names of the options besides algorithm, name, prefix and share. */
  readonly options: readonly string[];
  /**
   * The word for the algorithm in policy text, such as `burst`. Its first letter starts the stored id, so it must differ
   * from those of all other algorithms.
   */
  readonly word: string;
  /** Checks the options and returns their numbers. Throws an error that names the option. */
  compile(policy: Policy): PolicyNumbers;
  /** The canonical text, which is the name of an unnamed policy. */
  text(numbers: PolicyNumbers): string;
  /** A shorter text of the same numbers, for stored keys. */
  shortText(numbers: PolicyNumbers): string;
  /** The window or fill time as text. It is a part of the stored key of a named policy. */
  timeText(numbers: PolicyNumbers): string;
  /**
   * Creates a policy from text: what precedes the word, and what follows it. `undefined`: that is not how it is written.
   * Throws an error that names `option` if the rate is invalid.
   */
  fromText(option: string, first: string, rest: readonly string[]): Policy | undefined;
  /** Creates a policy with exactly these numbers as data, for sending it elsewhere. */
  fromNumbers(numbers: PolicyNumbers): EncodedPolicy;
}

/** A policy as data: the name of its algorithm, and its options. */
export interface EncodedPolicy {
  /** Names the algorithm. */
  readonly algorithm: AlgorithmName;
  /** Options of the policy: numbers and strings. */
  readonly [option: string]: unknown;
}

/** The start of the window that contains `now`. Windows start at multiples of their length. */
export function windowStart({ windowMs }: CompiledPolicy, now: number): number {
  return now - (now % windowMs);
}

/** Whether whole numbers are a state of an algorithm, and not of another one. */
export function isState(state: readonly number[], { width, list, isList }: Algorithm): boolean {
  if (!state.every(Number.isSafeInteger)) return false;
  return list ? isList?.(state) === true : state.length === width;
}

/** Identifies a policy with its numbers. */
export function fingerprintOf(id: string, numbers: PolicyNumbers): string {
  const { limit, windowMs, unitsPerMs, unitsPerToken, block } = numbers;
  const blocks = block ? `${Object.values(block)} ` : "";
  return `${limit} ${windowMs} ${unitsPerMs} ${unitsPerToken} ${blocks}${id}`;
}
