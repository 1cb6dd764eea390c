/** How the tests of every folder here are run; `--root` tells which. */
import { defineConfig } from "vitest/config";
import root from "../vitest.config.ts";

export default defineConfig({
  // The package by its public names, as the root's tests have it.
  resolve: root.resolve ?? {},
  test: {
    include: ["*.test.ts"],
    // Each file starts servers of its own, up to six.
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
