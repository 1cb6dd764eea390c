/** Bundles a module and the built package into one script, for runtimes without files and Node's modules. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** The built file of each subpath. */
function builtSubpaths() {
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  return Object.fromEntries(
    Object.entries(exports)
      .filter(([, target]) => typeof target === "object")
      .map(([name, target]) => [join("sluice", name), join(root, target.import.default)]),
  );
}

/**
 * Keeps imports of Node's modules external. An unused one is removed from the script; a used one stays, and the runtime
 * rejects it.
 */
const externalNodeModules = {
  name: "external-node-modules",
  setup({ onResolve }) {
    onResolve({ filter: /^node:/ }, ({ path }) => ({ path, external: true, sideEffects: false }));
  },
};

/** Returns the script. In format `"iife"`, the exports of the module are in the global `bundle`. */
export async function bundle(entry, format) {
  const { build } = await import("esbuild");
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    format,
    globalName: "bundle",
    platform: "neutral",
    mainFields: [],
    write: false,
    alias: {
      ...builtSubpaths(),
      "@upstash/redis/cloudflare": join(root, "node_modules/@upstash/redis/cloudflare.mjs"),
    },
    external: ["cloudflare:*"],
    plugins: [externalNodeModules],
  });
  return outputFiles[0].text;
}
