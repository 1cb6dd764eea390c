/** The contract of one header syntax. */
import type { Decision } from "../../core/decision.ts";
import type { Policies } from "./policies.ts";

/** Header names and values, in the order in which they are sent. */
export type HeaderFields = Record<string, string>;

/** Values that some header fields need besides the decision. */
export interface HeaderContext {
  /** The key that was charged, for `partitionKey`; of several charges, the key of the limiting one. Default: none. */
  key?: string;
  /** One key per policy, in the order of the policies, if they differ. Default: `key` for every policy. */
  keys?: readonly string[];
  /** Milliseconds since the epoch, for `X-RateLimit-Reset`. Default: now. */
  now?: number;
}

/** Validated header options. */
export interface FieldStyle {
  /** Whether only the limiting policy is written. */
  readonly closestOnly: boolean;
  /** Whether `X-RateLimit-Reset` is a number of seconds and not a point in time. */
  readonly resetIsDelta: boolean;
  readonly unit: string | undefined;
  readonly partitionKey: ((key: string) => string) | undefined;
  /** Called with policies that a syntax can't express. */
  warn(message: string): void;
}

/** Writes the fields of one response. `policies` is `undefined` if the limiter does not report them. */
export type WriteFields = (
  decision: Decision,
  policies: Policies | undefined,
  style: FieldStyle,
  context: HeaderContext,
) => HeaderFields;
