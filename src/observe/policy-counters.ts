/** Counts the decisions of one policy. */
import { BoundedMap } from "../base/bounded-map.ts";
import type { PolicyObserver } from "../core/apply.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import type { Decision } from "../core/decision.ts";
import type { ObserverPort } from "../core/observer.ts";
import { COLUMN, OUTCOMES, outcomeOf } from "./outcomes.ts";

/** Blocked keys that are remembered, so that each block is counted once. */
const MAX_BLOCKED_KEYS = 1000;
const MAX_KEY_CHARS = 128;

/** The numbers of one policy, by outcome. */
export class PolicyCounts {
  readonly name: string;
  readonly decisions: Float64Array = new Float64Array(OUTCOMES.length);
  readonly cost: Float64Array = new Float64Array(OUTCOMES.length);
  degraded = 0;
  blocks = 0;

  constructor(name: string) {
    this.name = name;
  }
}

/** Counts decisions of a policy. Policies with one name share their counts. */
export class PolicyCounters implements PolicyObserver {
  readonly port: ObserverPort;
  private readonly counts: PolicyCounts;
  private readonly policy: Pick<CompiledPolicy, "block"> | undefined;
  private readonly monotonicMs: () => number;
  /** When the blocks that this process knows end, in monotonic ms, by key. */
  private readonly blocks: BoundedMap<string, number> | undefined;

  constructor(
    port: ObserverPort,
    counts: PolicyCounts,
    policy: Pick<CompiledPolicy, "block"> | undefined,
    monotonicMs: () => number,
  ) {
    this.port = port;
    this.counts = counts;
    this.policy = policy;
    this.monotonicMs = monotonicMs;
    this.blocks = policy?.block && new BoundedMap({ maxEntries: MAX_BLOCKED_KEYS, maxKeyLength: MAX_KEY_CHARS });
  }

  get name(): string {
    return this.counts.name;
  }

  count(decision: Decision, key: string, cost: number, isEnforced: boolean): void {
    const { counts } = this;
    const column = decision.allowed ? 0 : COLUMN[outcomeOf(decision, isEnforced, this.blocks !== undefined)];
    counts.decisions[column] = (counts.decisions[column] as number) + 1;
    counts.cost[column] = (counts.cost[column] as number) + cost;
    if (decision.source !== undefined && decision.source !== "cache") counts.degraded++;
    if (this.blocks && !decision.allowed) this.detectBlock(decision, key);
  }

  settled(cost: number): void {
    this.counts.cost[0] = (this.counts.cost[0] as number) + cost;
  }

  /** Counts a block, if the decision is the one that has started it: only then is its whole duration left. */
  detectBlock({ retryAfterMs, source }: Decision, key: string): void {
    if (source !== undefined || retryAfterMs === null || retryAfterMs === undefined) return;
    if (this.policy?.block?.durationsMs.includes(retryAfterMs)) this.blocked(key, retryAfterMs);
  }

  /** Counts a block. Another decision within the same millisecond is about the same one. */
  blocked(key: string, forMs: number): void {
    const endsAt = this.monotonicMs() + forMs;
    const known = this.blocks?.get(key);
    if (known !== undefined && endsAt - known < Math.min(SAME_BLOCK_MS, forMs / 2)) return;
    this.blocks?.set(key, endsAt);
    this.counts.blocks++;
    this.port.transition({ type: "block-started", policy: this.counts.name });
  }
}

/** Two ends of one block differ by the time between two replies of the store. */
const SAME_BLOCK_MS = 50;
