/** The test runner that a suite is given: vitest, node:test, bun test or one of your own. */

/** The two functions that every runner has. */
export interface Runner {
  /** Groups cases. */
  describe(name: string, body: () => void): void;
  /** One case. */
  it(name: string, body: () => Promise<void>): void;
}

/** The given runner, or the globals that runners put in place. */
export function runnerOf(given: Partial<Runner> | undefined): Runner {
  const globals = globalThis as Partial<Runner>;
  const describe = given?.describe ?? globals.describe;
  const it = given?.it ?? globals.it;
  if (describe && it) return { describe, it };
  throw new TypeError("Pass { describe, it } of your test runner as the third argument, or make them global.");
}
