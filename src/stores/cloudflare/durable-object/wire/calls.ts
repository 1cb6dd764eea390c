/** The calls that a Worker sends to a Durable Object by RPC. validate.ts checks them in the object. */

import { algorithms } from "../../../../algorithms/algorithms.ts";
import { compilePolicy } from "../../../../algorithms/compile-policy.ts";
import type { Group, Mode } from "../../../../core/charge.ts";
import type { CompiledPolicy } from "../../../../core/compiled-policy.ts";
import type { Policy } from "../../../../core/policy.ts";

/**
 * Version of the calls and replies. Increase it with every change of their shape: while a deployment rolls out, a Worker
 * of one version calls objects of another.
 */
export const PROTOCOL_VERSION = 4;

/** Maximum number of charges in one call. */
export const MAX_CHARGES_PER_CALL = 1024;

/** One charge. */
export interface WireCharge {
  /** Index into `policies` of the call. */
  readonly policy: number;
  /** Stored key of the bucket. */
  readonly bucket: string;
  readonly cost: number;
  readonly mode: Mode;
  /** When the refunded grant expires, in milliseconds since the epoch. Absent if that is unknown. */
  readonly grantEndsAt?: number;
  /** The hold's id and its length in milliseconds, in modes `hold` and `settle`. */
  readonly hold?: { readonly id: string; readonly forMs: number };
}

/** Groups of charges, each all or nothing, applied in order. */
export interface ApplyCall {
  readonly version: number;
  /** The policies of all charges, each of them once. */
  readonly policies: readonly Policy[];
  readonly groups: readonly (readonly WireCharge[])[];
}

/** The bucket to inspect. */
export interface BucketCall {
  readonly version: number;
  readonly policy: Policy;
  /** Stored key of the bucket. */
  readonly bucket: string;
}

/** Encodes groups of charges whose keys are stored keys. */
export function encodeApplyCall(groups: readonly Group[]): ApplyCall {
  const policies: CompiledPolicy[] = [];
  const indexOf = (policy: CompiledPolicy): number => {
    const index = policies.indexOf(policy);
    return index >= 0 ? index : policies.push(policy) - 1;
  };
  return {
    version: PROTOCOL_VERSION,
    groups: groups.map((group) =>
      group.map(
        ({ policy, key: bucket, cost, mode, grantEndsAt, hold }): WireCharge => ({
          policy: indexOf(policy),
          bucket,
          cost,
          mode,
          ...(grantEndsAt !== undefined && { grantEndsAt }),
          ...(hold !== undefined && { hold }),
        }),
      ),
    ),
    policies: policies.map(encodePolicy),
  };
}

/** Encodes the bucket to inspect. */
export function encodeBucketCall(policy: CompiledPolicy, bucket: string): BucketCall {
  return { version: PROTOCOL_VERSION, policy: encodePolicy(policy), bucket };
}

/** Rejects a policy that can't be encoded: a rate whose ratio has too large numbers. */
export function checkEncodable(policy: CompiledPolicy): void {
  compilePolicy(encodePolicy(policy));
}

/** Encodes the numbers of a policy, without its name. */
function encodePolicy(policy: CompiledPolicy): Policy {
  return algorithms[policy.algorithm].form.fromNumbers(policy);
}
