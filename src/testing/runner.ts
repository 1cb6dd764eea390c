/** The functions of a test runner that a suite uses: Vitest, node:test, bun test or your own. */

/** The test runner's functions. */
export interface Runner {
  /** Groups test cases. */
  describe(name: string, body: () => void): void;
  /** Registers one test case. */
  it(name: string, body: () => Promise<void>): void;
}

/** Returns the given functions, or the globals of the test runner. */
export function resolveRunner(given: Partial<Runner> | undefined): Runner {
  const globals = globalThis as Partial<Runner>;
  const describe = given?.describe ?? globals.describe;
  const it = given?.it ?? globals.it;
  if (describe && it) return { describe, it };
  throw new TypeError(
    "describe and it are not global. Pass the { describe, it } of your test runner as the third argument.",
  );
}
