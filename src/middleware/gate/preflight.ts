/**
 * Counts CORS preflights. They carry no credentials, and a rejected one looks like a network error to a script, so they
 * are not charged to the caller's budget. Uncounted they would be a bypass, so they have a budget per IP address.
 */
import { compilePolicy } from "../../algorithms/compile-policy.ts";
import type { CompiledPolicy } from "../../core/compiled-policy.ts";
import type { Decision } from "../../core/decision.ts";
import { optionError } from "../../core/errors.ts";
import { andThen, type MaybePromise } from "../../core/maybe-promise.ts";
import type { Policy, ResolvedPolicy } from "../../core/policy.ts";
import type { SyncRateLimiter } from "../../core/rate-limiter.ts";
import { limiterOwning } from "../../limiter/owning-limiter.ts";
import { memoryStore } from "../../stores/memory/memory-store.ts";
import { policyFrom } from "./limiters.ts";
import type { RateLimitOptions } from "./options.ts";
import type { HandlerArgs, RequestReader } from "./request-reader.ts";

/** Without `Access-Control-Max-Age`, 50 browsers behind one IP address may each repeat ten preflights every 5 s. */
const DEFAULT_POLICY: Policy = { capacity: 500, tokensPerSecond: 50 };
const MAX_ADDRESSES = 10_000;
/** HTTP methods that scripts may use: not CONNECT and TRACE. */
const METHOD = /^(?!CONNECT$|TRACE$)[A-Z-]{3,20}$/;

/** The preflight budget of one middleware. Its table is allocated with the first preflight. */
export class PreflightBudget {
  private readonly policy: CompiledPolicy;
  private limiter: SyncRateLimiter | undefined;

  constructor(policy: CompiledPolicy) {
    this.policy = policy;
  }

  consume(key: string): Decision {
    this.limiter ??= limiterOwning(memoryStore({ maxKeys: MAX_ADDRESSES }), this.policy);
    return this.limiter.consumeSync(key);
  }

  getPolicy(): ResolvedPolicy | undefined {
    return this.limiter?.getPolicy();
  }
}

/** Creates the budget from the option; `undefined` if preflights are charged like any request. */
export function preflightBudget(
  preflight: RateLimitOptions<never, unknown>["preflight"] = DEFAULT_POLICY,
): PreflightBudget | undefined {
  if (preflight === "charge") return undefined;
  const isPolicy = typeof preflight === "string" || (typeof preflight === "object" && preflight !== null);
  if (!isPolicy || (preflight as string) === "skip") {
    const expected = 'a policy such as "50/s burst 500", or "charge"';
    throw optionError("invalid-option", "preflight", expected, preflight);
  }
  return new PreflightBudget(compilePolicy({ ...policyFrom("preflight", preflight), name: "preflight" }));
}

/** Whether a request is a preflight as browsers send it. A handler that ignores the method might process a body. */
export function isPreflight<Args extends HandlerArgs>(reader: RequestReader<Args>, args: Args): MaybePromise<boolean> {
  if (reader.method(args) !== "OPTIONS" || !reader.header(args, "origin")) return false;
  if (!METHOD.test(reader.header(args, "access-control-request-method") ?? "")) return false;
  return andThen(reader.hasBody(args), (hasBody) => !hasBody);
}

/** The members of a Node request that show whether it has a body. */
interface NodeRequest {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** HTTP/2 only. */
  readonly stream?: { readonly endAfterHeaders?: boolean };
}

/** Whether a Node request has a body. HTTP/2 requires no header for that, but Node has a flag. */
export function hasNodeBody({ headers, stream }: NodeRequest): boolean {
  if (stream) return stream.endAfterHeaders !== true;
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) !== 0;
}
