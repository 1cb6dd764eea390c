/** Charges as data, for stores that decide elsewhere: an algorithm has functions, which can't be sent. */

import { BoundedMap } from "../base/bounded-map.ts";
import { optionError } from "../base/errors.ts";
import { checkWhole } from "../base/options.ts";
import { type Charge, checkCost } from "../core/charge.ts";
import type { CompiledPolicy, EncodedPolicy, Mode } from "../core/compiled-policy.ts";
import { algorithms } from "../holds/all-algorithms.ts";
import { ALL_MODES } from "../holds/hold-modes.ts";
import { HOLD_ID, MAX_HOLD_MS } from "../holds/hold-options.ts";
import { holdTerms } from "../holds/hold-terms.ts";
import { compileWith } from "../policy/compile-policy.ts";
import { defaultMaxHolds } from "../policy/max-holds.ts";

/** A charge as data: plain objects, numbers and strings. */
export interface EncodedCharge extends EncodedTerms {
  /** The numbers of the policy, without its name. The same object for every charge under one policy. */
  readonly policy: EncodedPolicy;
  /** The key of the charge. */
  readonly key: string;
}

/** A charge as data, without its policy and key. */
export interface EncodedTerms {
  /** A whole number >= 0. */
  readonly cost: number;
  /** What to do with the cost. */
  readonly mode: Mode;
  /** When the refunded grant expires, by the store's clock. Absent if that is unknown. */
  readonly grantEndsAt?: number;
  /** The hold's id and its duration in ms, in modes `hold` and `settle`. */
  readonly hold?: { readonly id: string; readonly forMs: number };
}

/** Maximum duration of a block. Holds end sooner. */
const MAX_BLOCK_MS = 2 ** 51;
/** Maximum number of compiled policies that are cached. */
const MAX_CACHED_POLICIES = 1000;

const encodedPolicies = /* @__PURE__ */ new WeakMap<CompiledPolicy, EncodedPolicy>();

/** Encodes a charge as data. A policy is encoded once. */
export function encodeCharge({ policy, key, cost, mode, grantEndsAt, hold }: Charge): EncodedCharge {
  return {
    policy: encodePolicy(policy),
    key,
    cost,
    mode,
    ...(grantEndsAt !== undefined && { grantEndsAt }),
    ...(hold !== undefined && { hold: { id: hold.id, forMs: hold.forMs } }),
  };
}

/** Decodes a charge. Validates every member, so it may come from anywhere. Throws an error that names the member. */
export function decodeCharge(encoded: EncodedCharge): Charge {
  if (typeof encoded !== "object" || encoded === null)
    throw optionError("invalid-option", "charge", "an object", encoded);
  const { policy, key } = encoded as Partial<EncodedCharge>;
  if (typeof key !== "string" || key === "") throw optionError("invalid-key", "key", "a string that is not empty");
  return decodeTerms(encoded, decodePolicy(policy as EncodedPolicy), key);
}

/** Encodes the numbers of a policy, without its name. */
export function encodePolicy(policy: CompiledPolicy): EncodedPolicy {
  let encoded = encodedPolicies.get(policy);
  if (!encoded) {
    const { limit, maxHolds, algorithm } = policy;
    const isDefault = maxHolds === defaultMaxHolds(limit, algorithm.holdsOnly);
    encoded = { ...algorithm.form.fromNumbers(policy), ...(isDefault ? {} : { maxHolds }) };
    encodedPolicies.set(policy, encoded);
  }
  return encoded;
}

/** Compiled policies by their JSON text: the same few policies come with every call. */
const compiledPolicies = /* @__PURE__ */ new BoundedMap<string, CompiledPolicy>({ maxEntries: MAX_CACHED_POLICIES });

/** Validates and compiles an encoded policy. It may name every algorithm. */
export function decodePolicy(policy: EncodedPolicy): CompiledPolicy {
  const text = policyJson(policy);
  let compiled = compiledPolicies.get(text);
  if (!compiled) {
    compiled = compileWith(policy, algorithms);
    compiledPolicies.set(text, compiled);
  }
  return compiled;
}

function policyJson(policy: unknown): string {
  try {
    return JSON.stringify(policy);
  } catch {
    throw optionError("invalid-option", "policy", "an object of numbers and strings", policy);
  }
}

/** Validates the rest of an encoded charge. */
export function decodeTerms(encoded: Partial<EncodedTerms>, policy: CompiledPolicy, key: string): Charge {
  const { cost, mode, grantEndsAt, hold } = encoded;
  checkCost(cost as number);
  if (typeof mode !== "string" || !Object.hasOwn(ALL_MODES, mode)) {
    throw optionError("invalid-option", "mode", `one of ${Object.keys(ALL_MODES).join(", ")}`, mode);
  }
  if (grantEndsAt !== undefined && !Number.isSafeInteger(grantEndsAt)) {
    throw optionError("invalid-option", "grantEndsAt", "whole milliseconds since the epoch", grantEndsAt);
  }
  if ((mode === "hold" || mode === "settle") && hold === undefined) {
    throw optionError("invalid-option", "hold", `an object with id and forMs in mode ${mode}`);
  }
  return { policy, key, cost: cost as number, mode, grantEndsAt, hold: decodeHold(hold, policy) };
}

/** A penalty's key is held to block it, for longer than anything else may be held. */
function decodeHold(hold: unknown, { kind }: CompiledPolicy): Charge["hold"] {
  if (hold === undefined) return undefined;
  const { id, forMs } = (hold ?? {}) as { id?: unknown; forMs?: unknown };
  if (typeof id !== "string" || !HOLD_ID.test(id)) {
    throw optionError("invalid-option", "hold.id", "1 to 64 letters, digits or characters of _ . ~ -");
  }
  return holdTerms(id, checkWhole("hold.forMs", forMs, 0, kind === "penalty" ? MAX_BLOCK_MS : MAX_HOLD_MS));
}
