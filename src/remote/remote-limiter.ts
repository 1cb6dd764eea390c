/** Limiters of one policy on a store that is called over the network. */
import type { Watcher } from "./breaker.ts";
import { emit } from "../core/events.ts";
import { healthOf } from "./store-health.ts";
import type { LimiterPart } from "../core/limiter-part.ts";
import { PolicyLimiter } from "../core/policy-limiter.ts";
import { emitStoreWarning } from "./store-port.ts";

/** One policy on a store that is called over the network. Emits the store's failures and recoveries. */
export class RemoteLimiter extends PolicyLimiter {
  private readonly watcher: Watcher;

  constructor(part: LimiterPart, release: () => Promise<void>) {
    super(part, release);
    const { onEvent } = part.failurePolicy;
    const { name } = part.policy;
    this.watcher = {
      // An observer watches the store itself.
      down: (error) => emit({ onEvent }, { type: "store-down", policy: name, error }),
      up: (downMs) => emit({ onEvent }, { type: "store-up", policy: name, downMs }),
      degraded: (error, count) => emit({ onEvent }, { type: "degraded", policy: name, error, count }),
    };
    if (onEvent) healthOf(this.store).watch(this.watcher);
    emitStoreWarning(this.store, part.failurePolicy, name);
  }

  override async dispose(): Promise<void> {
    healthOf(this.store).unwatch(this.watcher);
    await super.dispose();
  }
}
