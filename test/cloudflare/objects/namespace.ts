/** Namespaces with unused objects, a fake clock, and helpers for the tasks. */
import { type Decision, type Policy, type RateLimiter, tokenBucket } from "sluice";
import type { DurableObjectNamespaceLike, DurableObjectStoreOptions } from "sluice/cloudflare";
import type { Objects } from "./classes.ts";

export interface Env {
  OBJECTS: DurableObjectNamespaceLike;
  RACY: DurableObjectNamespaceLike;
  BILLED: DurableObjectNamespaceLike;
}

export type Shards = NonNullable<DurableObjectStoreOptions["shards"]>;

/** A capacity of 50 that hardly refills during a test. */
export const FIFTY: Policy = tokenBucket({ capacity: 50, tokensPerSecond: "50/1h" });

/** A namespace whose objects have a unique prefix, or those of an earlier run. */
export class FreshNamespace implements DurableObjectNamespaceLike {
  readonly names: Set<string> = new Set();
  /** Number of stubs that were created: one per RPC. */
  calls = 0;
  private readonly namespace: DurableObjectNamespaceLike;
  private readonly prefix: string;

  constructor(namespace: DurableObjectNamespaceLike, prefix = `${crypto.randomUUID()}:`) {
    this.namespace = namespace;
    this.prefix = prefix;
  }

  idFromName(name: string): object {
    this.names.add(name);
    return this.namespace.idFromName(this.prefix + name);
  }

  get(id: never): object {
    this.calls++;
    return this.namespace.get(id);
  }

  object(name: string): Objects {
    return this.namespace.get(this.namespace.idFromName(this.prefix + name) as never) as Objects;
  }

  /** Crashes all objects that were called. */
  async crash(): Promise<void> {
    for (const name of this.names)
      await this.object(name)
        .crash()
        .catch(() => {});
  }
}

export const { now: realNow } = Date;
let fakeNow = 0;

/**
 * Replaces the clock of this isolate and its objects, and returns a function that advances it. It starts ten years
 * ahead, where no real alarm is due.
 */
export function fakeTime(): (ms: number) => void {
  fakeNow = realNow() + 10 * 365 * 86_400_000;
  Date.now = () => fakeNow;
  return (ms) => {
    fakeNow += ms;
  };
}

export function consumeMany(limiter: RateLimiter, calls: number, key = "k"): Promise<Decision[]> {
  return Promise.all(Array.from({ length: calls }, () => limiter.consume(key)));
}

export function countAllowed(decisions: readonly Decision[]): number {
  return decisions.filter(({ allowed }) => allowed).length;
}
