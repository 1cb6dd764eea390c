/** Limiters that own their store. Without what other stores need, so that a limiter in memory stays small. */
import { type LimiterContext, type Part, syncEngine } from "../core/apply.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import { alone, defaultContext, SyncLimiter } from "../core/limiter.ts";
import type { SyncRateLimiter } from "../core/rate-limiter.ts";
import type { SyncStore } from "../core/store.ts";

/** Creates a limiter that disposes of its store with itself. */
export function limiterOwning(
  store: SyncStore,
  policy: CompiledPolicy,
  context: LimiterContext = defaultContext(policy),
  observed?: Part["observed"],
): SyncRateLimiter {
  const part: Part = { engine: syncEngine(store), policy, context, observed };
  return new SyncLimiter([part], alone, () => store.dispose());
}
