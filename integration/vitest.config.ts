/** Test settings of every folder here; `--root` selects the folder. */
import { defineConfig } from "vitest/config";
import root from "../vitest.config.ts";

export default defineConfig({
  // Resolves the public names of the package, as the tests of the root do.
  resolve: {
    ...root.resolve,
    // sluice/h3 imports h3 at run time, which only the folder that tests it has installed.
    dedupe: ["h3"],
  },
  test: {
    include: ["*.test.ts"],
    // Each file starts up to six servers.
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
