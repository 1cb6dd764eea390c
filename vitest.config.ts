import { fileURLToPath } from "node:url";
import { configDefaults, defineConfig } from "vitest/config";
import { subpaths } from "./scripts/subpaths.js";
import { projects } from "./scripts/test-projects.js";
import { ProgressReporter } from "./test/progress-reporter.ts";

// Vitest uses Map.groupBy to print failures, which Node 20 does not have.
if (!("groupBy" in Map)) {
  const groupBy = <K, T>(items: Iterable<T>, keyOf: (item: T) => K): Map<K, T[]> => {
    const groups = new Map<K, T[]>();
    for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
    return groups;
  };
  Object.assign(Map, { groupBy });
}

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  resolve: {
    // Tests import the package by its public names, resolved to the source.
    alias: subpaths.map(({ name, conditions, entry }) => ({
      find: new RegExp(`^${name.replace(".", "\\.")}$`),
      replacement: at(`src/entries/${conditions.node ?? entry}.ts`),
    })),
  },
  test: {
    globalSetup: "test/global-setup.ts",
    reporters: ["default", new ProgressReporter()],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // Test files run in parallel: each starts the servers that it needs. By default, Vitest leaves one core unused.
    maxWorkers: "100%",
    projects: Object.entries(projects).map(([name, { include, exclude }]) => ({
      extends: true as const,
      test: {
        name,
        include,
        exclude: [...configDefaults.exclude, ...exclude],
        // Unit tests share a process: starting one takes longer than most of them.
        ...(name === "unit" && { isolate: false, setupFiles: "test/fresh-process.ts" }),
      },
    })),
  },
});
