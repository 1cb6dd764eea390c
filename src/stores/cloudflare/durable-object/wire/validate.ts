/**
 * Validates the calls that a Durable Object receives, before anything is written. Every Worker with a binding to the
 * object can call it, so policies, keys and costs are checked again.
 */

import { optionError, SluiceError, show } from "../../../../base/errors.ts";
import { type Charge, MAX_CHARGES } from "../../../../core/charge.ts";
import type { CompiledPolicy, EncodedPolicy } from "../../../../core/compiled-policy.ts";
import { decodePolicy, decodeTerms } from "../../../encode-charge.ts";
import { type ApplyCall, type BucketCall, MAX_CHARGES_PER_CALL, PROTOCOL_VERSION, type WireCharge } from "./calls.ts";

/** Maximum length of a stored key. A key of 128 bytes with a name and a prefix is shorter. */
const MAX_STORED_KEY_CHARS = 1024;

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
  const compiled = policies.map((policy: EncodedPolicy) => decodePolicy(policy));
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
  return { policy: decodePolicy(policy as EncodedPolicy), bucket: checkBucket(bucket) };
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
  const { policy: index, bucket } = charge as Partial<WireCharge>;
  const policy = Number.isInteger(index) ? policies[index as number] : undefined;
  if (!policy) throw optionError("invalid-option", "policy", "the index of a policy in this call", index);
  return decodeTerms(charge, policy, checkBucket(bucket));
}

function checkBucket(bucket: unknown): string {
  if (typeof bucket === "string" && bucket !== "" && bucket.length <= MAX_STORED_KEY_CHARS) return bucket;
  // The value is left out of the message because it contains the caller's key.
  throw optionError("invalid-key", "bucket", `a string of 1 to ${MAX_STORED_KEY_CHARS} characters`);
}
