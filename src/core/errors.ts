/** The one error class: what was wrong, with which value, and what would have been right. */

/** Stable names for what can go wrong; each has a heading in docs/errors.md. */
export type ErrorCode =
  | "invalid-option"
  | "unknown-option"
  | "out-of-range"
  | "invalid-key"
  | "invalid-cost"
  | "invalid-clock"
  | "invalid-limiter"
  | "policy-conflict"
  | "too-many-charges"
  | "too-far-apart"
  | "foreign-value"
  | "store-unavailable"
  | "unidentified"
  | "disposed";

/** Thrown for every misuse of the library, and for a store that fails. A denial is never an error. */
export class SluiceError extends Error {
  /** The stable name of the fault; see docs/errors.md. */
  readonly code: ErrorCode;
  /** The option, argument or call at fault. */
  readonly option: string;
  /** What would have been accepted, in words. */
  readonly expected: string;
  /** The value that was received, if there was one. */
  readonly received: unknown;

  constructor(code: ErrorCode, option: string, expected: string, ...received: [unknown?]) {
    super(`${option}: expected ${expected}${received.length > 0 ? `, received ${show(received[0])}` : ""} [${code}]`);
    this.name = "SluiceError";
    this.code = code;
    this.option = option;
    this.expected = expected;
    this.received = received[0];
  }
}

/** What every call after `dispose` gets. */
export function refuseDisposed(option: string): never {
  throw new SluiceError("disposed", option, `a ${option} that is still in use`);
}

/** Short enough for a log line whatever the caller passed in. */
function show(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}...` : value);
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "symbol" || typeof value === "function") return `a ${typeof value}`;
  if (Array.isArray(value)) return "an array";
  if (value === undefined) return "nothing";
  return typeof value === "object" && value !== null ? "an object" : String(value);
}
