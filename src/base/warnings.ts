/** Process warnings, which report problems in production once and without configuration. */
import { ERRORS_PAGE } from "./errors.ts";
import { shared } from "./shared-state.ts";

/** Stable warning codes. Each has a heading in docs/errors.md. */
export type WarningCode =
  /** The store is unavailable, or its client never connected. */
  | "SLUICE_STORE_UNAVAILABLE"
  /** Calls to the store fail now and then. */
  | "SLUICE_STORE_DEGRADED"
  /** A key in the store has a value that sluice did not write. */
  | "SLUICE_FOREIGN_VALUE"
  /** Requests carry forwarding headers of a proxy that `identity` does not name. */
  | "SLUICE_UNTRUSTED_PROXY"
  /** A trusted proxy forwards requests without the client's IP address. */
  | "SLUICE_MISSING_CLIENT_ADDRESS"
  /** A callback of the application threw or rejected, and nothing else reports it. */
  | "SLUICE_CALLBACK_FAILED"
  /** A request could not be checked and got a 500 response. */
  | "SLUICE_REQUEST_FAILED"
  /** A caller has a plan that the rules don't list. */
  | "SLUICE_UNKNOWN_PLAN"
  /** A limit of a rule has applied to none of the first requests, because a fact is unknown. */
  | "SLUICE_LIMIT_NOT_APPLIED"
  /** A list of clients could not be loaded, and an old one is in use, or none. */
  | "SLUICE_LIST_STALE"
  /** The provider of challenges is unavailable, so nobody can solve one. */
  | "SLUICE_PROVIDER_DOWN"
  /** The response to a request with an idempotency key was not stored, so a retry gets a 409 or runs again. */
  | "SLUICE_RESPONSE_NOT_STORED"
  /** The idempotency store in memory is full and evicted a response, so its request would run again. */
  | "SLUICE_RESPONSE_EVICTED"
  /** A request lost its lease on an idempotency key while it ran. */
  | "SLUICE_LEASE_LOST"
  /** A limit on failures counts nothing, because nearly all requests are refunded, or everything, because none is. */
  | "SLUICE_REFUNDS"
  /** The limiter is used in a way that does not limit anything, or limits everyone together. */
  | "SLUICE_MISUSE";

/** Warnings per code: stores and middleware that are created per request must not fill the log. */
const MAX_PER_CODE = 20;
const emitted = /* @__PURE__ */ shared("emittedWarnings", () => new Map<WarningCode, number>());

interface ProcessLike {
  emitWarning?(message: string, options: { type: string; code: string }): void;
}

/** An error as text for a warning, without a full stop. */
export function describeError(error: unknown): string {
  try {
    // Without the link of our own errors: the warning ends with one.
    return String(error).replace(/\.?(?: See \S+)?$/, "");
  } catch {
    // An object without a prototype, or one whose toString throws.
    return typeof error;
  }
}

/**
 * Emits a process warning, or logs it if the runtime has none. The caller makes sure that it warns once per store or
 * middleware, and never if the user has set the callback that reports the same problem.
 */
export function emitProcessWarning(code: WarningCode, message: string): void {
  const count = emitted.get(code) ?? 0;
  if (count >= MAX_PER_CODE) return;
  emitted.set(code, count + 1);
  const text = `${message} See ${ERRORS_PAGE}#${code.toLowerCase()}`;
  const { process, console } = globalThis as { process?: ProcessLike; console?: { warn(text: string): void } };
  if (typeof process?.emitWarning === "function") process.emitWarning(text, { type: "SluiceWarning", code });
  else console?.warn(`SluiceWarning [${code}]: ${text}`);
}

/** Names of the warnings that are emitted once per process. There are few. */
const emittedOnce = /* @__PURE__ */ shared("onceWarnings", () => new Set<string>());

/** Emits a process warning once per process and name. */
export function emitWarningOnce(name: string, code: WarningCode, message: string): void {
  if (emittedOnce.has(name)) return;
  emittedOnce.add(name);
  emitProcessWarning(code, message);
}

/** Makes every warning due again, as in a new process. For tests that share one. */
export function forgetWarnings(): void {
  emitted.clear();
  emittedOnce.clear();
}
