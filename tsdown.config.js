import { defineConfig } from "tsdown";
import { entryFiles } from "./scripts/subpaths.js";

export default defineConfig({
  entry: entryFiles,
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
        { name: "address", test: /ipaddr\.js|http\/identity\/address/ },
        // What the two doors of sluice/cloudflare have in common. Not its declarations, which have another dot.
        {
          name: "objects",
          test: /(algorithms\/decide-group|stores\/cloudflare\/(?:[\w-]+\/)*(?!in-|outside-)[\w-]+)\.ts$/,
        },
      ],
    },
  },
  deps: { neverBundle: ["cloudflare:workers"] },
  dts: true,
  clean: true,
});
