/** A test runner that collects failures. */
import type { Runner } from "sluice/testing";

/** Runs the cases of a suite and returns the titles and messages of those that failed. */
export async function failuresOf(suite: (runner: Runner) => void): Promise<string[]> {
  const cases: { title: string; body: () => Promise<void> }[] = [];
  let path = "";
  suite({
    describe(name, body) {
      const outer = path;
      path = `${path}${name} > `;
      body();
      path = outer;
    },
    it: (name, body) => cases.push({ title: `${path}${name}`, body }),
  });
  const failures: string[] = [];
  for (const { title, body } of cases) {
    try {
      await body();
    } catch (error) {
      failures.push(`${title}: ${(error as Error).message}`);
    }
  }
  if (cases.length === 0) throw new Error("The suite registered no cases.");
  return failures;
}
