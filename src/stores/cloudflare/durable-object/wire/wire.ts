/**
 * What goes between a store and its Durable Objects, by RPC or as JSON. An object believes nothing that it is told:
 * policies, keys and costs are checked there again, all of them before anything is done.
 */

import { compilePolicy } from "../../../../algorithms/compile-policy.ts";
import { type Charge, checkCost, type Group, MAX_CHARGES, type Mode } from "../../../../core/charge.ts";
import type { CompiledPolicy } from "../../../../core/compile.ts";
import type { Decision } from "../../../../core/decision.ts";
import { optionError } from "../../../../core/errors.ts";
import { recordGrant } from "../../../../core/grant.ts";
import type { Policy } from "../../../../core/policy.ts";

/** Changes with the form of what is sent. Workers and objects of two versions meet while a deployment rolls out. */
const VERSION = 2;
/** The longest name of a bucket: a key of 128 bytes, a name and a prefix are shorter. */
const MAX_STORED_KEY_CHARS = 1024;
/** So many charges are sent in one call. */
export const MAX_CHARGES_PER_CALL = 1024;

/** One charge: which of the call's policies, the bucket as it is stored, the cost, what to do, and `grantEndsAt` if known. */
type WireCharge = readonly [policy: number, bucket: string, cost: number, mode: Mode, grantEndsAt?: number];

/** Groups of charges, each all or none. */
export interface TakeCall {
  readonly version: number;
  readonly policies: readonly Policy[];
  readonly groups: readonly (readonly WireCharge[])[];
}

/** A decision without what the caller knows: the last is `retryAfterMs` of a denial, `delayMs` of a queue, else 0. */
export type WireDecision = readonly [
  allowed: 0 | 1,
  remaining: number,
  resetAfterMs: number,
  nextAfterMs: number,
  waitMs: number | null,
];

/** The decisions on the charges of each group, and the object's time when they were made. */
export interface TakeReply {
  readonly now: number;
  readonly groups: readonly (readonly WireDecision[])[];
}

/** What is kept about one bucket. */
export interface WireInspection {
  readonly decision: WireDecision;
  readonly raw: string | null;
  readonly ttlMs: number | null;
}

/** Which bucket to forget, or to show and under which policy. */
export interface BucketCall {
  readonly version: number;
  readonly policy: Policy;
  readonly bucket: string;
}

/** A policy as it is sent: by its numbers alone. A rate is a ratio, because a number would round it. */
function wirePolicy({ algorithm, limit, windowMs, unitsPerMs, unitsPerToken }: CompiledPolicy): Policy {
  if (algorithm === "token-bucket")
    return { algorithm, capacity: limit, tokensPerSecond: `${unitsPerMs}/${unitsPerToken}ms` };
  if (algorithm === "leaky-bucket")
    return { algorithm, capacity: limit, leaksPerSecond: `${unitsPerMs}/${unitsPerToken}ms` };
  return { algorithm, limit, windowMs };
}

/** Groups of charges as they are sent; each policy once. The keys of the charges are buckets. */
export function takeCall(groups: readonly Group[]): TakeCall {
  const known: CompiledPolicy[] = [];
  const numberOf = (policy: CompiledPolicy): number => {
    const number = known.indexOf(policy);
    return number >= 0 ? number : known.push(policy) - 1;
  };
  return {
    version: VERSION,
    groups: groups.map((group) =>
      group.map(({ policy, key, cost, mode, grantEndsAt }): WireCharge => {
        const charge = [numberOf(policy), key, cost, mode] as const;
        return grantEndsAt === undefined ? charge : [...charge, grantEndsAt];
      }),
    ),
    policies: known.map(wirePolicy),
  };
}

/** Refuses a policy that can't be sent: a rate whose ratio is of too large numbers. */
export function checkSendable(policy: CompiledPolicy): void {
  compilePolicy(wirePolicy(policy));
}

/** One bucket as it is sent. */
export function bucketCall(policy: CompiledPolicy, bucket: string): BucketCall {
  return { version: VERSION, policy: wirePolicy(policy), bucket };
}

/** What an object was asked, or an error that names what is wrong with it. The keys of charges are buckets. */
export function readTakeCall(call: unknown): Charge[][] {
  const { policies, groups } = checkCall(call) as Partial<TakeCall>;
  if (!Array.isArray(policies) || !Array.isArray(groups)) {
    throw optionError("invalid-option", "call", "lists of policies and groups", call);
  }
  const compiled = policies.map(compileOnce);
  let charges = 0;
  return groups.map((group: unknown) => {
    if (!Array.isArray(group) || group.length > MAX_CHARGES) {
      throw optionError("invalid-option", "group", `a list of at most ${MAX_CHARGES} charges`, group);
    }
    charges += group.length;
    if (charges > MAX_CHARGES_PER_CALL)
      throw optionError("invalid-option", "groups", `at most ${MAX_CHARGES_PER_CALL} charges`);
    // Not `map`, which passes by what is missing.
    const read = Array.from(group, (charge) => readCharge(charge, compiled));
    if (new Set(read.map(({ key }) => key)).size < read.length) {
      throw optionError("invalid-option", "group", "each bucket once");
    }
    return read;
  });
}

function textOf(policy: unknown): string {
  try {
    return JSON.stringify(policy);
  } catch {
    throw optionError("invalid-option", "policy", "a policy of plain numbers and strings", policy);
  }
}

function readCharge(charge: unknown, policies: readonly CompiledPolicy[]): Charge {
  const [index, bucket, cost, mode, grantEndsAt] = Array.isArray(charge) ? charge : [];
  const policy = Number.isInteger(index) ? policies[index as number] : undefined;
  if (!policy) throw optionError("invalid-option", "policy", "the number of a policy of this call", index);
  checkCost(cost);
  if (mode !== "take" && mode !== "peek" && mode !== "refund") {
    throw optionError("invalid-option", "mode", "take, peek or refund", mode);
  }
  if (grantEndsAt !== undefined && !Number.isSafeInteger(grantEndsAt)) {
    throw optionError("invalid-option", "grantEndsAt", "whole milliseconds since the epoch", grantEndsAt);
  }
  return { policy, key: checkBucket(bucket), cost, mode, grantEndsAt };
}

/** The bucket that an object was asked about. */
export function readBucketCall(call: unknown): { policy: CompiledPolicy; bucket: string } {
  const { policy, bucket } = checkCall(call) as Partial<BucketCall>;
  return { policy: compileOnce(policy as Policy), bucket: checkBucket(bucket) };
}

/** The policies of late, checked. An object is told the same few with every call. */
const known = new Map<string, CompiledPolicy>();
const MAX_CACHED_POLICIES = 1000;

function compileOnce(policy: Policy): CompiledPolicy {
  const text = textOf(policy);
  let compiled = known.get(text);
  if (!compiled) {
    compiled = compilePolicy(policy);
    if (known.size >= MAX_CACHED_POLICIES) known.clear();
    known.set(text, compiled);
  }
  return compiled;
}

function checkCall(call: unknown): object {
  if (typeof call !== "object" || call === null) throw optionError("invalid-option", "call", "an object", call);
  const { version } = call as Partial<TakeCall>;
  if (version === VERSION) return call;
  throw optionError("invalid-option", "version", `${VERSION}: a Worker of the version of its objects`, version);
}

function checkBucket(bucket: unknown): string {
  if (typeof bucket === "string" && bucket !== "" && bucket.length <= MAX_STORED_KEY_CHARS) return bucket;
  throw optionError("invalid-key", "bucket", `a string of 1 to ${MAX_STORED_KEY_CHARS} characters`, bucket);
}

/** A decision as it is sent. */
export function wireDecision(decision: Decision): WireDecision {
  const { allowed, remaining, resetAfterMs, nextAfterMs } = decision;
  const waitMs = decision.allowed ? (decision.delayMs ?? 0) : decision.retryAfterMs;
  return [allowed ? 1 : 0, remaining, resetAfterMs, nextAfterMs, waitMs];
}

/** The decision that was sent on a charge, made at `now`. */
export function readChargeDecision(wire: WireDecision, { policy, cost, mode }: Charge, now: number): Decision {
  const decision = readDecision(wire, policy);
  if (mode !== "take" || !decision.allowed) return decision;
  return recordGrant(decision, now + decision.resetAfterMs, cost);
}

/** The decision that was sent, under the policy that was asked about. */
export function readDecision(
  [allowed, remaining, resetAfterMs, nextAfterMs, waitMs]: WireDecision,
  { name: policy, limit, algorithm }: CompiledPolicy,
): Decision {
  if (!allowed) {
    return { allowed: false, policy, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs: waitMs };
  }
  if (algorithm !== "leaky-bucket") return { allowed: true, policy, limit, remaining, resetAfterMs, nextAfterMs };
  return { allowed: true, policy, limit, remaining, resetAfterMs, nextAfterMs, delayMs: waitMs as number };
}
