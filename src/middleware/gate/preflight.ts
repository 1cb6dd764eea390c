/**
 * CORS preflights. They carry no credentials, and a rejected one looks like a network error to a script, so they are not
 * charged to the caller's budget. Left uncounted they would be a bypass, so they have a budget per IP address.
 */

import { compilePolicy } from "../../algorithms/compile-policy.ts";
import type { Decision } from "../../core/decision.ts";
import { optionError } from "../../core/errors.ts";
import { andThen, type MaybePromise } from "../../core/maybe-promise.ts";
import type { Policy, ResolvedPolicy } from "../../core/policy.ts";
import { type MemoryRateLimiter, memoryRateLimiter } from "../../stores/memory/rate-limiter.ts";
import { policyFrom } from "./limiters.ts";
import type { RateLimitOptions } from "./options.ts";
import type { RequestReader } from "./request-reader.ts";

/** Without `Access-Control-Max-Age`, 50 browsers behind one IP address may each repeat ten preflights every 5 s. */
const DEFAULT_POLICY: Policy = { capacity: 500, tokensPerSecond: 50 };
const MAX_ADDRESSES = 10_000;
/** Methods of HTTP; CONNECT and TRACE are forbidden to scripts. */
const METHOD = /^(?!CONNECT$|TRACE$)[A-Z-]{3,20}$/;

/** The preflight budget of one middleware. Its table is allocated with the first preflight. */
export class PreflightBudget {
  private readonly policy: Policy;
  private limiter: MemoryRateLimiter | undefined;

  constructor(policy: Policy) {
    this.policy = policy;
  }

  consume(key: string): Decision {
    this.limiter ??= memoryRateLimiter(this.policy, { maxKeys: MAX_ADDRESSES });
    return this.limiter.consumeSync(key);
  }

  getPolicy(): ResolvedPolicy | undefined {
    return this.limiter?.getPolicy();
  }
}

/** The budget that an option asks for; `undefined` if preflights are charged like any request. */
export function preflightBudget(
  preflight: RateLimitOptions<never, unknown>["preflight"] = DEFAULT_POLICY,
): PreflightBudget | undefined {
  if (preflight === "charge") return undefined;
  const isPolicy = typeof preflight === "string" || (typeof preflight === "object" && preflight !== null);
  if (!isPolicy || (preflight as string) === "skip") {
    const unsupported = (preflight as string) === "skip" ? '; "skip" is not supported' : "";
    const expected = `a policy such as "50/s burst 500", or "charge"${unsupported}`;
    throw optionError("invalid-option", "preflight", expected, preflight);
  }
  const policy: Policy = { ...policyFrom("preflight", preflight), name: "preflight" };
  // Throws if the policy is invalid.
  compilePolicy(policy);
  return new PreflightBudget(policy);
}

/**
 * Whether a request is a preflight as browsers send it. With a body it could be handled as another request by handlers
 * that ignore the method.
 */
export function isPreflight<Call extends readonly unknown[]>(
  facts: RequestReader<Call>,
  call: Call,
): MaybePromise<boolean> {
  if (facts.method(call) !== "OPTIONS" || !facts.header(call, "origin")) return false;
  if (!METHOD.test(facts.header(call, "access-control-request-method") ?? "")) return false;
  return andThen(facts.hasBody(call), (hasBody) => !hasBody);
}

/** What is read of a request of Node. */
interface NodeRequest {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** HTTP/2 only. */
  readonly stream?: { readonly endAfterHeaders?: boolean };
}

/** Whether a request of Node has a body. HTTP/2 has no header that says so, but a flag. */
export function hasNodeBody({ headers, stream }: NodeRequest): boolean {
  if (stream) return stream.endAfterHeaders !== true;
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) !== 0;
}
