/**
 * A store on the Workers rate limit binding. The binding counts per location in periods of 10 or 60 seconds and returns
 * only whether a request is within the limit, so `peek`, `refund`, `reset` and `inspect` are not supported.
 */

import { optionError, rejectDisposed, SluiceError } from "../../../base/errors.ts";
import type { Group } from "../../../core/charge.ts";
import type { CompiledPolicy, Mode } from "../../../core/compiled-policy.ts";
import type { Decision, Inspection } from "../../../core/decision.ts";
import type { Store } from "../../../core/store.ts";
import { keyTag, storedKey } from "../../stored-key.ts";
import { hasMethods, type RateLimitBinding } from "../platform.ts";

/** The periods that Cloudflare supports. */
const PERIODS_MS = [10_000, 60_000];

/** Creates a store on a binding. The policy of its limiter must have the numbers that the binding is configured with. */
export function bindingStore(binding: RateLimitBinding): Store {
  if (!hasMethods(binding, ["limit"])) {
    const expected =
      "a rate limit binding, such as env.RL with a binding of that name under ratelimits in wrangler.jsonc";
    throw optionError("invalid-option", "binding", expected, binding);
  }
  return new BindingStore(binding);
}

class BindingStore implements Store {
  readonly consistency = "approximate";
  readonly kind = "binding";
  private readonly binding: RateLimitBinding;
  private disposed = false;

  constructor(binding: RateLimitBinding) {
    this.binding = binding;
  }

  check({ algorithm, windowMs }: CompiledPolicy, isGroup: boolean, mode?: Mode): void {
    if (mode === "hold") {
      const message = "A rate limit binding does not support holds. Use durableObjectRateLimiter().";
      throw new SluiceError("unsupported", message, { option: "hold", expected: "an exact store" });
    }
    if (algorithm.name !== "fixed-window") {
      throw optionError("unsupported", "algorithm", "fixed-window for a rate limit binding", algorithm.name);
    }
    if (!PERIODS_MS.includes(windowMs)) {
      throw optionError("unsupported", "windowMs", "10000 or 60000 for a rate limit binding", windowMs);
    }
    if (isGroup) {
      throw new SluiceError(
        "unsupported",
        "A bindingRateLimiter can't be combined with other limiters, because it can't peek or refund. Use hybridRateLimiter(first, exact) to put a binding first.",
        { option: "limiters", expected: "limiters that can peek and refund", received: "a bindingRateLimiter" },
      );
    }
  }

  apply(groups: readonly Group[]): Promise<Decision[][]> {
    return Promise.all(groups.map((group) => Promise.all(group.map((charge) => this.applyCharge(charge)))));
  }

  async inspect(): Promise<Inspection> {
    return rejectMethod("inspect");
  }

  async dispose(): Promise<void> {
    this.disposed = true;
  }

  private async applyCharge({ policy, key, cost, mode }: Group[number]): Promise<Decision> {
    if (this.disposed) rejectDisposed("bindingRateLimiter");
    if (mode !== "take") rejectMethod(mode);
    const { name, limit, windowMs } = policy;
    const common = { policy: name, limit, approximate: true, unknown: true } as const;
    const full = { remaining: limit, resetAfterMs: 0, nextAfterMs: 0 };
    if (cost === 0) return { allowed: true, ...common, ...full };
    if (cost > limit) return { allowed: false, ...common, ...full, retryAfterMs: null };
    if (cost !== 1) {
      throw optionError("invalid-cost", "cost", "0 or 1, because the rate limit binding counts requests", cost);
    }
    // The policy is part of the key: two policies on one binding must not share a budget.
    const { success } = await this.binding.limit({ key: storedKey(keyTag(key, {}), policy.id) });
    if (success) return { allowed: true, ...common, ...full };
    // The binding does not report when its period began: only a whole period is certainly long enough.
    const period = { resetAfterMs: windowMs, nextAfterMs: windowMs, retryAfterMs: windowMs };
    return { allowed: false, ...common, remaining: 0, ...period };
  }
}

function rejectMethod(method: string): never {
  throw new SluiceError(
    "unsupported",
    `${method}() is not supported by Cloudflare's rate limit binding. Only consume() is.`,
    { option: method, expected: "consume" },
  );
}
