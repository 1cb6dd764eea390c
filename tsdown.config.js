import { defineConfig } from "tsdown";

export default defineConfig({
  entry: [
    "src/index.ts",
    "src/algorithms/index.ts",
    "src/http/index.ts",
    "src/redis.ts",
    "src/upstash.ts",
    "src/testing/index.ts",
  ],
  format: "esm",
  platform: "neutral",
  target: "es2022",
  dts: true,
  clean: true,
});
