/** The few assertions that the suites need, so that they run under any test runner and in any runtime. */
import type { Decision } from "../core/decision.ts";

/** Fails unless `condition` holds. */
export function check(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message);
}

/** Fails unless two plain values are equal, member by member. */
export function same(actual: unknown, expected: unknown, what: string): void {
  const [got, wanted] = [text(actual), text(expected)];
  if (got !== wanted) throw new Error(`${what}: expected ${wanted}, got ${got}`);
}

/** Fails unless `action` fails with a coded error, which is what users of a limiter catch. */
export async function refuses(action: () => unknown, code: string, what: string): Promise<void> {
  let answer: unknown;
  try {
    answer = await action();
  } catch (error) {
    same((error as { code?: unknown }).code, code, `${what}: the error's code`);
    return;
  }
  throw new Error(`${what}: expected an error with code ${code}, got ${text(answer)}`);
}

/** The figures that two stores have to agree on. */
export function figures(decision: Decision): Record<string, unknown> {
  const { allowed, policy, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs, delayMs } = decision;
  return { allowed, policy, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs, delayMs };
}

/** JSON with members in order and without hiding `undefined`, `NaN` or `-0`. */
function text(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(text).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${members.map(([name, member]) => `${name}:${text(member)}`).join(",")}}`;
  }
  return Object.is(value, -0) ? "-0" : typeof value === "string" ? JSON.stringify(value) : String(value);
}
