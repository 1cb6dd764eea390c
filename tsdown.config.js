import { defineConfig } from "tsdown";

export default defineConfig({
  entry: [
    "src/index.ts",
    "src/algorithms/index.ts",
    "src/http/index.ts",
    "src/ws/index.ts",
    "src/fetch.ts",
    "src/node.ts",
    "src/express.ts",
    "src/fastify.ts",
    "src/hono.ts",
    "src/redis.ts",
    "src/upstash.ts",
    "src/cloudflare.ts",
    "src/cloudflare-node.ts",
    "src/testing/index.ts",
  ],
  format: "esm",
  platform: "neutral",
  target: "es2022",
  // ipaddr.js, which is bundled, has a main field only.
  inputOptions: { resolve: { mainFields: ["module", "main"] }, preserveEntrySignatures: "allow-extension" },
  // Whoever imports something else of sluice/http does not get it.
  outputOptions: {
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: [
        { name: "address", test: /ipaddr\.js|http\/address/ },
        // What the two doors of sluice/cloudflare have in common. Not its declarations, which have another dot.
        { name: "objects", test: /(algorithms\/decide-group|stores\/cloudflare\/(?!in-|outside-)[\w-]+)\.ts$/ },
      ],
    },
  },
  deps: { neverBundle: ["cloudflare:workers"] },
  dts: true,
  clean: true,
});
