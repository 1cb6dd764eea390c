/** Prints which test files are still running, and lists at the end the tests that were skipped for a missing program. */
import { relative } from "node:path";
import type { Reporter, TestCase, TestModule } from "vitest/node";
import { startHeartbeat } from "../scripts/heartbeat.js";

export class ProgressReporter implements Reporter {
  private readonly running = new Set<string>();
  private stopHeartbeat = () => {};

  onTestRunStart(): void {
    // A terminal shows the running files anyway.
    if (process.stdout.isTTY) return;
    this.stopHeartbeat = startHeartbeat(() => [...this.running].join(", ") || "vitest");
  }

  onTestModuleStart(module: TestModule): void {
    this.running.add(fileOf(module));
  }

  onTestModuleEnd(module: TestModule): void {
    this.running.delete(fileOf(module));
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    this.stopHeartbeat();
    const text = describeSkipped(modules.map((module) => ({ file: fileOf(module), tests: [...testsOf(module)] })));
    if (text !== "") console.log(text);
  }
}

/** The tests of one file, each with the missing program that it was skipped for. */
interface FileTests {
  readonly file: string;
  readonly tests: readonly { missing?: { need: string; reason: string } | undefined }[];
}

/** The list of what was not run, or an empty string. */
export function describeSkipped(files: readonly FileTests[]): string {
  const needs = new Map<string, { reason: string; rows: string[]; files: string[]; count: number }>();
  for (const { file, tests } of files) {
    for (const need of new Set(tests.flatMap(({ missing }) => missing?.need ?? []))) {
      const skipped = tests.flatMap(({ missing }) => (missing?.need === need ? [missing.reason] : []));
      const entry = needs.get(need) ?? { reason: skipped[0] ?? "", rows: [], files: [], count: 0 };
      const part = skipped.length < tests.length ? ` of ${tests.length}` : "";
      entry.rows.push(`  ${file}: ${skipped.length}${part} ${tests.length === 1 ? "test" : "tests"}`);
      entry.files.push(file);
      entry.count += skipped.length;
      needs.set(need, entry);
    }
  }
  return [...needs]
    .map(([need, { reason, rows, files, count }]) => {
      const title = `NOT RUN without ${need}: ${plural(count, "test")} in ${plural(files.length, "file")}.`;
      return [title, ...rows, reason, "Then run them with:", `  npx vitest run ${files.join(" ")}`, ""].join("\n");
    })
    .join("\n");
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function* testsOf(module: TestModule) {
  for (const test of module.children.allTests()) yield { missing: missingOf(test) };
}

function missingOf(test: TestCase) {
  return test.result().state === "skipped" ? test.meta().missing : undefined;
}

function fileOf({ moduleId }: TestModule): string {
  return relative(process.cwd(), moduleId).replaceAll("\\", "/");
}
