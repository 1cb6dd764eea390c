/** The form of the misuse table: what a user did wrong, and what came back. */
import type { ErrorCode } from "sluice";
import { ERRORS_PAGE } from "../../src/base/errors.ts";

/** A: the message contains the fix. B: right, needs the docs. C: right but vague. D: misleading, or a raw crash. F: silent. */
type Grade = "A" | "B" | "C" | "D" | "F";

/** One way to make the mistake, and where it surfaces: `throws`, `warns` and `returns`, or `diagnostic`. */
export interface Case {
  /** What the user wrote; with `diagnostic`, the source of a TypeScript module. */
  readonly code: string;
  /** Does it. Each run must finish within the deadline. */
  readonly run?: () => unknown;
  /** The message of the error that is thrown, or that the promise rejects with. */
  readonly throws?: string | RegExp;
  /** The message of the only process warning. */
  readonly warns?: string | RegExp;
  /** What it yields: the result of something that works, or the responses and the error that the framework received. */
  readonly returns?: unknown;
  /** The first line of what TypeScript reports; `null` if it accepts the code. */
  readonly diagnostic?: string | RegExp | null;
  /** The file that TypeScript reports. Default: that of the code. */
  readonly reportedIn?: string;
}

/** One mistake. */
export interface Row {
  readonly number: number;
  /** The mistake in words. */
  readonly what: string;
  /** The grade of the review that found it, for comparison. */
  readonly before: string;
  /** The grade now. */
  readonly grade: Grade;
  /** Why it is not better. Required below B. */
  readonly reason?: string;
  /** Where it is tested, if not here. */
  readonly coveredBy?: string;
  readonly cases: readonly Case[];
}

/** The message of an error with this code: the text, and the link to its section. */
export function see(code: ErrorCode, text: string): string {
  return `${text} See ${ERRORS_PAGE}#${code}`;
}

/** The message of a process warning with this code. */
export function warning(code: string, text: string): string {
  return `${text} See ${ERRORS_PAGE}#sluice_${code}`;
}

/** A value of the wrong type, as JavaScript or a cast lets it through. */
// biome-ignore lint/suspicious/noExplicitAny: the types of a mistake are wrong on purpose
export function wrong(value: unknown): any {
  return value;
}
