/** Test settings of every folder here; `--root` selects the folder. */
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import root from "../vitest.config.ts";

const proposal = fileURLToPath(new URL("ws/proposal/packages/", import.meta.url));

export default defineConfig({
  resolve: {
    // Resolves the public names of the package, as the tests of the root do.
    // Also the package names of the ws-kit proposal, whose code is in ws/proposal.
    alias: [
      ...root.resolve.alias,
      { find: /^@ws-kit\/(?=middleware$)/, replacement: proposal },
      { find: /^@ws-kit\/adapters\//, replacement: proposal },
    ],
    // Packages that the source imports, and apps that two folders share, are those of the folder.
    dedupe: [
      "@nestjs/common",
      "@nestjs/core",
      "@nestjs/platform-express",
      "@nestjs/platform-fastify",
      "@nestjs/testing",
      "@opentelemetry/api",
      "@trpc/server",
      "h3",
      "reflect-metadata",
    ],
  },
  test: {
    include: ["*.test.ts"],
    // Each file starts up to six servers.
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
