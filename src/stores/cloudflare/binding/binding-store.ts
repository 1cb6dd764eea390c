/**
 * The rate-limit binding of Workers. It counts in each location for itself, in periods of 10 or 60 seconds, and
 * answers yes or no: there is nothing to look at, to give back or to show.
 */
import type { Group } from "../../../core/charge.ts";
import type { CompiledPolicy } from "../../../core/compile.ts";
import type { Decision, Inspection } from "../../../core/decision.ts";
import { optionError, rejectDisposed } from "../../../core/errors.ts";
import type { Store } from "../../../core/store.ts";
import { storedKey, keyTag } from "../../stored-key.ts";
import { hasMethods, type RateLimitBinding } from "../platform.ts";

const PERIODS = [10_000, 60_000];

/** Asks the binding of a Worker, whose numbers are those of `policy`. */
export function bindingStore(binding: RateLimitBinding): Store {
  if (!hasMethods(binding, ["limit"])) {
    const expected = "a rate-limit binding, such as env.RL with one of that name in ratelimits of wrangler.jsonc";
    throw optionError("invalid-option", "binding", expected, binding);
  }
  return new Binding(binding);
}

class Binding implements Store {
  readonly consistency = "approximate";
  private readonly binding: RateLimitBinding;
  private disposed = false;

  constructor(binding: RateLimitBinding) {
    this.binding = binding;
  }

  check({ algorithm, windowMs }: CompiledPolicy, together: boolean): void {
    if (algorithm !== "fixed-window") {
      throw optionError("unsupported", "algorithm", "fixed-window, as the binding counts", algorithm);
    }
    if (!PERIODS.includes(windowMs)) {
      throw optionError("unsupported", "windowMs", "10000 or 60000, the periods of the binding", windowMs);
    }
    if (together) {
      const expected = "limiters that can look before they take; hybridRateLimiter(first, exact) puts a binding first";
      throw optionError("unsupported", "limiters", expected, "a bindingRateLimiter");
    }
  }

  apply(groups: readonly Group[]): Promise<Decision[][]> {
    return Promise.all(groups.map((group) => Promise.all(group.map((charge) => this.ask(charge)))));
  }

  async reset(): Promise<void> {
    refuse("reset");
  }

  async inspect(): Promise<Inspection> {
    return refuse("inspect");
  }

  async dispose(): Promise<void> {
    this.disposed = true;
  }

  private async ask({ policy, key, cost, mode }: Group[number]): Promise<Decision> {
    if (this.disposed) rejectDisposed("bindingRateLimiter");
    if (mode !== "take") refuse(mode);
    const { name, limit, windowMs } = policy;
    const about = { policy: name, limit, approximate: true, unknown: true } as const;
    const full = { remaining: limit, resetAfterMs: 0, nextAfterMs: 0 };
    if (cost === 0) return { allowed: true, ...about, ...full };
    if (cost > limit) return { allowed: false, ...about, ...full, retryAfterMs: null };
    if (cost !== 1) throw optionError("invalid-cost", "cost", "0 or 1, as the binding counts requests", cost);
    // As other stores name it, so that no two policies on one binding spend each other's budget.
    const { success } = await this.binding.limit({ key: storedKey(keyTag(key, {}), policy.id) });
    if (success) return { allowed: true, ...about, ...full };
    // When the period began is not told, so that the whole of it is the wait that is surely enough.
    const period = { resetAfterMs: windowMs, nextAfterMs: windowMs, retryAfterMs: windowMs };
    return { allowed: false, ...about, remaining: 0, ...period };
  }
}

function refuse(method: string): never {
  throw optionError("unsupported", method, "consume alone: the binding answers yes or no and shows nothing");
}
