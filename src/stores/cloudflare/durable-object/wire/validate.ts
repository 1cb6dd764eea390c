/**
 * Validates the calls that a Durable Object receives, before anything is written. Every Worker with a binding to the
 * object can call it, so policies, keys and costs are checked again.
 */
import { compilePolicy } from "../../../../algorithms/compile-policy.ts";
import { MODES } from "../../../../algorithms/modes.ts";
import { BoundedMap } from "../../../../core/bounded-map.ts";
import { type Charge, checkCost, MAX_CHARGES } from "../../../../core/charge.ts";
import type { CompiledPolicy } from "../../../../core/compiled-policy.ts";
import { optionError, SluiceError, show } from "../../../../core/errors.ts";
import { HOLD_ID, MAX_HOLD_MS } from "../../../../core/hold.ts";
import { checkWhole } from "../../../../core/options.ts";
import type { Policy } from "../../../../core/policy.ts";
import { type ApplyCall, type BucketCall, MAX_CHARGES_PER_CALL, PROTOCOL_VERSION, type WireCharge } from "./calls.ts";

/** Maximum length of a stored key. A key of 128 bytes with a name and a prefix is shorter. */
const MAX_STORED_KEY_CHARS = 1024;
/** Maximum duration of a block. Holds end sooner. */
const MAX_BLOCK_MS = 2 ** 51;
/** Maximum number of compiled policies that are cached. */
const MAX_CACHED_POLICIES = 1000;

/** Returns the groups of a call. The keys of the charges are stored keys. */
export function parseApplyCall(call: unknown): Charge[][] {
  const { policies, groups } = checkVersion(call) as Partial<ApplyCall>;
  if (!Array.isArray(policies)) throw optionError("invalid-option", "policies", "an array", policies);
  if (!Array.isArray(groups)) throw optionError("invalid-option", "groups", "an array", groups);
  const chargeCount = groups.reduce(
    (sum: number, group: unknown) => sum + (Array.isArray(group) ? group.length : 0),
    0,
  );
  if (chargeCount > MAX_CHARGES_PER_CALL) throw tooManyCharges("call", MAX_CHARGES_PER_CALL, chargeCount);
  const compiled = policies.map(compileOnce);
  return groups.map((group: unknown) => {
    if (!Array.isArray(group)) throw optionError("invalid-option", "group", "an array of charges", group);
    if (group.length > MAX_CHARGES) throw tooManyCharges("group", MAX_CHARGES, group.length);
    // Not `map`, which skips the holes of a sparse array.
    const charges = Array.from(group, (charge) => parseCharge(charge, compiled));
    if (new Set(charges.map(({ key }) => key)).size < charges.length) {
      throw new SluiceError("invalid-option", "A group must not contain the same bucket twice.", {
        option: "group",
        expected: "each bucket once",
      });
    }
    return charges;
  });
}

function tooManyCharges(where: "group" | "call", max: number, received: number): SluiceError {
  const expected = `at most ${max} charges`;
  const message = `A ${where} must have ${expected}, but received ${received}.`;
  return new SluiceError("invalid-option", message, { option: where, expected, received });
}

/** Returns the bucket to inspect. */
export function parseBucketCall(call: unknown): { policy: CompiledPolicy; bucket: string } {
  const { policy, bucket } = checkVersion(call) as Partial<BucketCall>;
  return { policy: compileOnce(policy as Policy), bucket: checkBucket(bucket) };
}

function checkVersion(call: unknown): object {
  if (typeof call !== "object" || call === null) throw optionError("invalid-option", "call", "an object", call);
  const { version } = call as Partial<ApplyCall>;
  if (version === PROTOCOL_VERSION) return call;
  throw new SluiceError(
    "invalid-option",
    `The Durable Object speaks protocol ${PROTOCOL_VERSION}, but the Worker sent ${show(version)}. Deploy both from one sluice version.`,
    { option: "version", expected: String(PROTOCOL_VERSION), received: version },
  );
}

function parseCharge(charge: unknown, policies: readonly CompiledPolicy[]): Charge {
  if (typeof charge !== "object" || charge === null) throw optionError("invalid-option", "charge", "an object", charge);
  const { policy: index, bucket, cost, mode, grantEndsAt, hold } = charge as Partial<WireCharge>;
  const policy = Number.isInteger(index) ? policies[index as number] : undefined;
  if (!policy) throw optionError("invalid-option", "policy", "the index of a policy in this call", index);
  checkCost(cost as number);
  if (typeof mode !== "string" || !Object.hasOwn(MODES, mode)) {
    throw optionError("invalid-option", "mode", `one of ${Object.keys(MODES).join(", ")}`, mode);
  }
  if (grantEndsAt !== undefined && !Number.isSafeInteger(grantEndsAt)) {
    throw optionError("invalid-option", "grantEndsAt", "whole milliseconds since the epoch", grantEndsAt);
  }
  if ((mode === "hold" || mode === "settle") && hold === undefined) {
    throw optionError("invalid-option", "hold", `an object with id and forMs in mode ${mode}`);
  }
  return { policy, key: checkBucket(bucket), cost: cost as number, mode, grantEndsAt, hold: parseHold(hold, policy) };
}

/** A penalty's key is held to block it, for longer than anything else may be held. */
function parseHold(hold: unknown, { block }: CompiledPolicy): Charge["hold"] {
  if (hold === undefined) return undefined;
  const { id, forMs } = (hold ?? {}) as { id?: unknown; forMs?: unknown };
  if (typeof id !== "string" || !HOLD_ID.test(id)) {
    throw optionError("invalid-option", "hold.id", "1 to 64 letters, digits or characters of _ . ~ -");
  }
  return { id, forMs: checkWhole("hold.forMs", forMs, 0, block ? MAX_BLOCK_MS : MAX_HOLD_MS) };
}

function checkBucket(bucket: unknown): string {
  if (typeof bucket === "string" && bucket !== "" && bucket.length <= MAX_STORED_KEY_CHARS) return bucket;
  // The value is left out of the message because it contains the caller's key.
  throw optionError("invalid-key", "bucket", `a string of 1 to ${MAX_STORED_KEY_CHARS} characters`);
}

/** Compiled policies by their JSON text: the same few policies come with every call. */
const compiledPolicies = new BoundedMap<string, CompiledPolicy>({ maxEntries: MAX_CACHED_POLICIES });

function compileOnce(policy: Policy): CompiledPolicy {
  const text = policyJson(policy);
  let compiled = compiledPolicies.get(text);
  if (!compiled) {
    compiled = compilePolicy(policy);
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
