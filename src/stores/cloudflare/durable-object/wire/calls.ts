/** The calls that a Worker sends to a Durable Object by RPC. validate.ts checks them in the object. */

import type { Charge, Group } from "../../../../core/charge.ts";
import type { CompiledPolicy, EncodedPolicy } from "../../../../core/compiled-policy.ts";
import { decodePolicy, type EncodedTerms, encodeCharge, encodePolicy } from "../../../encode-charge.ts";

/**
 * Version of the calls and replies. Increase it with every change of their shape: while a deployment rolls out, a Worker
 * of one version calls objects of another.
 */
export const PROTOCOL_VERSION = 4;

/** Maximum number of charges in one call. */
export const MAX_CHARGES_PER_CALL = 1024;

/** One charge. */
export interface WireCharge extends EncodedTerms {
  /** Index into `policies` of the call. */
  readonly policy: number;
  /** Stored key of the bucket. */
  readonly bucket: string;
}

/** Groups of charges, each all or nothing, applied in order. */
export interface ApplyCall {
  readonly version: number;
  /** The policies of all charges, each of them once. */
  readonly policies: readonly EncodedPolicy[];
  readonly groups: readonly (readonly WireCharge[])[];
}

/** The bucket to inspect. */
export interface BucketCall {
  readonly version: number;
  readonly policy: EncodedPolicy;
  /** Stored key of the bucket. */
  readonly bucket: string;
}

/** Encodes groups of charges whose keys are stored keys. */
export function encodeApplyCall(groups: readonly Group[]): ApplyCall {
  const policies: EncodedPolicy[] = [];
  const indexOf = (policy: EncodedPolicy): number => {
    const index = policies.indexOf(policy);
    return index >= 0 ? index : policies.push(policy) - 1;
  };
  const encode = (charge: Charge): WireCharge => {
    const { policy, key: bucket, ...terms } = encodeCharge(charge);
    return { policy: indexOf(policy), bucket, ...terms };
  };
  return { version: PROTOCOL_VERSION, groups: groups.map((group) => group.map(encode)), policies };
}

/** Encodes the bucket to inspect. */
export function encodeBucketCall(policy: CompiledPolicy, bucket: string): BucketCall {
  return { version: PROTOCOL_VERSION, policy: encodePolicy(policy), bucket };
}

/** Rejects a policy that can't be encoded: a rate whose ratio has too large numbers. */
export function checkEncodable(policy: CompiledPolicy): void {
  decodePolicy(encodePolicy(policy));
}
