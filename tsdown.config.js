import { defineConfig } from "tsdown";
import { entryFiles } from "./scripts/subpaths.js";

export default defineConfig({
  entry: entryFiles,
  format: ["esm", "cjs"],
  platform: "neutral",
  target: "es2022",
  // The bundled ipaddr.js has only a main field.
  inputOptions: { resolve: { mainFields: ["module", "main"] }, preserveEntrySignatures: "allow-extension" },
  outputOptions: {
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: [
        // A chunk of its own: other imports of sluice/http must not load ipaddr.js.
        { name: "address", test: /ipaddr\.js|http\/identity\/address/ },
        // Code shared by the two entries of sluice/cloudflare. [\w-]+ excludes .d.ts files.
        {
          name: "objects",
          test: /(?:stores\/cloudflare\/(?:[\w-]+\/)*(?!in-|outside-)[\w-]+|limiter\/hybrid-rate-limiter)\.ts$/,
        },
      ],
    },
  },
  deps: { neverBundle: ["cloudflare:workers"] },
  dts: true,
  sourcemap: true,
  clean: true,
});
