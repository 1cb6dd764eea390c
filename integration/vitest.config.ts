/** Test settings of every folder here; `--root` selects the folder. */
import { defineConfig } from "vitest/config";
import root from "../vitest.config.ts";

export default defineConfig({
  // Resolves the public names of the package, as the tests of the root do.
  resolve: root.resolve ?? {},
  test: {
    include: ["*.test.ts"],
    // Each file starts up to six servers.
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
