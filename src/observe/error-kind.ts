/** Why a store failed, as one of a few words: for labels and messages, which must not contain what a server wrote. */
import type { SluiceError } from "../base/errors.ts";

/** The kind of a store's failure. */
export type StoreErrorKind =
  | "timeout"
  | "unreachable"
  | "circuit-open"
  | "read-only"
  | "out-of-memory"
  | "busy"
  | "script"
  | "foreign-value"
  | "other";

const BY_REPLY: readonly (readonly [RegExp, StoreErrorKind])[] = [
  [/\bREADONLY\b/, "read-only"],
  [/\bOOM\b/, "out-of-memory"],
  [/\b(?:BUSY|LOADING|TRYAGAIN|CLUSTERDOWN|MASTERDOWN)\b/, "busy"],
  [/\b(?:NOSCRIPT|NOPERM)\b|user_script|running script|compiling script/i, "script"],
  [/timed? ?out|timeout/i, "timeout"],
  [
    /ECONN|ENOTFOUND|EAI_AGAIN|EPIPE|EHOSTUNREACH|ENETUNREACH|connection|connect|socket|fetch failed|network/i,
    "unreachable",
  ],
];

/** The kind of an error. `isRejected`: the call was not sent, because the circuit is open. */
export function storeErrorKind(error: SluiceError, isRejected: boolean): StoreErrorKind {
  if (isRejected) return "circuit-open";
  if (error.code === "foreign-value") return "foreign-value";
  // The client is not connected.
  if (error.option === "client") return "unreachable";
  const { cause } = error;
  // Nothing else fails without a cause than the deadline.
  if (cause === undefined) return "timeout";
  const text = `${(cause as { code?: unknown } | null)?.code ?? ""} ${messageOf(cause)}`;
  return BY_REPLY.find(([pattern]) => pattern.test(text))?.[1] ?? "other";
}

function messageOf(cause: unknown): string {
  const { message } = (cause ?? {}) as { message?: unknown };
  return typeof message === "string" ? message : "";
}
