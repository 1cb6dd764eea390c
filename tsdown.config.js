import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "tsdown";
import { entryFiles } from "./scripts/subpaths.js";

/**
 * Removes imports of chunks that have no side effects. Rolldown adds them to keep the order of execution, and esbuild, so
 * wrangler too, prints a warning for each. The line stays, so that source maps stay right.
 */
const withoutBareImports = {
  name: "without-bare-imports",
  generateBundle(
    /** @type {unknown} */ _options,
    /** @type {Record<string, { type: string, code: string }>} */ bundle,
  ) {
    for (const chunk of Object.values(bundle)) {
      if (chunk.type === "chunk") {
        chunk.code = chunk.code.replace(/^(?:import "\.\/[^"]+"|require\("\.\/[^"]+"\));$/gm, "");
      }
    }
  },
};

/** Removes references to source maps of declarations, which are not written. */
function removeMapComments(/** @type {string} */ folder) {
  for (const file of readdirSync(folder).filter((name) => /\.d\.c?ts$/.test(name))) {
    const path = join(folder, file);
    writeFileSync(path, readFileSync(path, "utf8").replace(/\n\/\/# sourceMappingURL=\S+\s*$/, "\n"));
  }
}

export default defineConfig({
  hooks: { "build:done": ({ options }) => removeMapComments(options.outDir) },
  plugins: [withoutBareImports],
  entry: entryFiles,
  format: ["esm", "cjs"],
  platform: "neutral",
  target: "es2022",
  // The bundled ipaddr.js has only a main field.
  inputOptions: {
    resolve: { mainFields: ["module", "main"] },
    preserveEntrySignatures: "allow-extension",
    // A slow machine would print timings with every npm start.
    checks: { bundlerTimings: false },
  },
  outputOptions: {
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: [
        // A chunk of its own: other imports of sluice/http must not load ipaddr.js. \.ts$ excludes .d.ts files.
        { name: "address", test: /ipaddr\.js|http\/identity\/address\.ts$/ },
        // A chunk for each layer that many entries share: dozens of small chunks make imports slow. [\w-]+ excludes .d.ts
        // files. Left out are files that would make two chunks import each other, or that import a framework.
        {
          name: "sha2",
          test: /@noble\/hashes|src\/(?:base\/hmac-tag|idempotency\/(?:entry-name)|stores\/stored-key)\.ts$/,
        },
        {
          name: "core",
          test: /src\/(?:base|core|algorithms|policy|memory|joint|remote(?!\/hybrid)|idempotency(?!\/(?:entry-name|memory-store|scoped)))\/[\w-]+\.ts$/,
        },
        {
          name: "gate",
          test: /src\/(?:http|middleware\/(?:gate|hosts))\/(?:[\w-]+\/)*(?!nest-guard|fastify-reply)[\w-]+\.ts$/,
        },
        { name: "idempotency", test: /src\/middleware\/idempotency\/[\w-]+\.ts$/ },
        { name: "holds", test: /src\/(?:(?:holds|penalties)\/[\w-]+|stores\/(?:holds-text|encode-charge))\.ts$/ },
        { name: "ws", test: /src\/ws\/engine\/[\w-]+\.ts$/ },
        // Code shared by the two entries of sluice/cloudflare. [\w-]+ excludes .d.ts files.
        {
          name: "objects",
          test: /(?:stores\/cloudflare\/(?:[\w-]+\/)*(?!in-|outside-)[\w-]+|remote\/hybrid-rate-limiter|idempotency\/entry-text)\.ts$/,
        },
      ],
    },
  },
  // Hono is a peer dependency of sluice/hono only. The middleware suite opens sockets.
  deps: { neverBundle: ["cloudflare:workers", "node:net"], alwaysBundle: ["hono/router/trie-router"] },
  dts: true,
  // Maps are two thirds of the package, and nobody debugs it through them: the code is not minified.
  sourcemap: Boolean(process.env.SLUICE_SOURCEMAPS),
  clean: true,
});
