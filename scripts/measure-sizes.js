/**
 * Prints the gzip size of common imports of a build, minified and tree-shaken: `node scripts/measure-sizes.js [dist] [other dist]`.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));
const builds = process.argv.slice(2).map((dist) => resolve(dist));
if (builds.length === 0) builds.push(join(root, "dist"));

/** The names that an application imports, by entry. */
const IMPORTS = {
  "memory, policy as text": { index: ["memoryRateLimiter"] },
  "memory and combine": { index: ["memoryRateLimiter", "combine"] },
  createLimiter: { index: ["createLimiter"] },
  redis: { redis: ["redisRateLimiter"] },
  upstash: { upstash: ["upstashRateLimiter"] },
  express: { express: ["rateLimit"] },
  hono: { hono: ["rateLimit"] },
  fetch: { fetch: ["rateLimit"] },
  "memory and holdAll": { index: ["memoryRateLimiter", "holdAll"] },
  "redis and holdAll": { index: ["holdAll"], redis: ["redisRateLimiter"] },
  "Durable Objects": { cloudflare: ["RateLimiterDO", "durableObjectRateLimiter"] },
  rules: { rules: ["defineRules"] },
  ws: { ws: ["guardWs"] },
};

async function measure(/** @type {string} */ dist, /** @type {Record<string, string[]>} */ imports) {
  // Below the root, so that packages of the root are found.
  const folder = mkdtempSync(join(root, ".sizes-"));
  try {
    const file = join(folder, "entry.js");
    const lines = Object.entries(imports).map(
      ([entry, names], i) =>
        `import { ${names.map((name) => `${name} as ${name}${i}`).join(", ")} } from ${JSON.stringify(join(dist, `${entry}.js`))};
globalThis.kept${i} = [${names.map((name) => name + i).join(", ")}];`,
    );
    writeFileSync(file, lines.join("\n"));
    const result = await build({
      root: folder,
      configFile: false,
      logLevel: "silent",
      build: {
        write: false,
        minify: true,
        modulePreload: false,
        rollupOptions: { input: file, external: ["cloudflare:workers", "jose"] },
      },
    });
    const [{ code }] = /** @type {{ output: [{ code: string }] }} */ (/** @type {unknown} */ (result)).output;
    return gzipSync(code, { level: 9 }).length / 1000;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

console.log(`| import | ${builds.length > 1 ? "old, kB | new, kB" : "kB"} |\n|---|${"---|".repeat(builds.length)}`);
for (const [name, imports] of Object.entries(IMPORTS)) {
  const sizes = [];
  for (const dist of builds) sizes.push((await measure(dist, imports)).toFixed(1));
  console.log(`| ${name} | ${sizes.join(" | ")} |`);
}
