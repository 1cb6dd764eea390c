/** Assertions for the suites, without a dependency on a test runner or a runtime. */
import type { Decision } from "../core/decision.ts";

/** Throws unless `condition` is true. */
export function check(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message);
}

/** Throws unless two plain values are deeply equal. */
export function checkEqual(actual: unknown, expected: unknown, subject: string): void {
  const [actualText, expectedText] = [format(actual), format(expected)];
  if (actualText !== expectedText) throw new Error(`${subject}: expected ${expectedText}, but received ${actualText}`);
}

/** Throws unless `action` throws or rejects with an error of this code. */
export async function checkRejects(action: () => unknown, code: string, subject: string): Promise<void> {
  let result: unknown;
  try {
    result = await action();
  } catch (error) {
    checkEqual((error as { code?: unknown }).code, code, `${subject}: the error's code`);
    return;
  }
  throw new Error(`${subject}: expected an error with code ${code}, but received ${format(result)}`);
}

/** The fields of a decision that have to be equal on every exact store. */
export function comparedFields(decision: Decision): Record<string, unknown> {
  const { allowed, policy, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs, delayMs } = decision;
  const { held, forgiven } = decision;
  const earliestRetryMs = decision.allowed ? undefined : decision.earliestRetryMs;
  const holds = { held, forgiven, earliestRetryMs };
  return { allowed, policy, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs, delayMs, ...holds };
}

/** JSON with sorted members that shows `undefined`, `NaN` and `-0`. */
function format(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(format).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${members.map(([name, member]) => `${name}:${format(member)}`).join(",")}}`;
  }
  return Object.is(value, -0) ? "-0" : typeof value === "string" ? JSON.stringify(value) : String(value);
}
