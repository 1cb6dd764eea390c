/** Makes one script of a module and of the built package, for runtimes that have neither files nor Node's modules. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** The package by its public names, as it is built. */
function publicNames() {
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  return Object.fromEntries(
    Object.entries(exports)
      .filter(([, target]) => typeof target === "object")
      .map(([name, target]) => [join("sluice", name), join(root, target.default)]),
  );
}

/**
 * A module of Node may be imported for something that is not used here. One that is used stays in the script, and the
 * runtime refuses it.
 */
const withoutNode = {
  name: "without-node",
  setup({ onResolve }) {
    onResolve({ filter: /^node:/ }, ({ path }) => ({ path, external: true, sideEffects: false }));
  },
};

/** The text of a script. As `"iife"` it leaves what the module exports in the global `kit`. */
export async function bundled(entry, format) {
  const { build } = await import("esbuild");
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    format,
    globalName: "kit",
    platform: "neutral",
    mainFields: [],
    write: false,
    alias: {
      ...publicNames(),
      "@upstash/redis/cloudflare": join(root, "node_modules/@upstash/redis/cloudflare.mjs"),
    },
    external: ["cloudflare:*"],
    plugins: [withoutNode],
  });
  return outputFiles[0].text;
}
