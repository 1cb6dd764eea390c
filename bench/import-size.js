/** Measures the bundle size of an import and the duration of a first import. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { goal, goalTable, spread, table } from "./report.js";
import { repeats } from "./settings.js";

export const title = "Size and cold import";

const here = fileURLToPath(new URL(".", import.meta.url));

/** The imports that a user would write for a limiter. */
const imports = [
  { label: "floor: an empty module", from: "./empty.js" },
  { label: "sluice", from: "../dist/index.js", names: "memoryRateLimiter" },
  { label: "sluice on Redis", from: "../dist/redis.js", names: "redisRateLimiter" },
  { label: "sluice for Express", from: "../dist/express.js", names: "rateLimit" },
  { label: "@ws-kit/memory", from: "@ws-kit/memory", names: "memoryRateLimiter" },
  { label: "limiter", from: "limiter", names: "TokenBucket" },
  { label: "hono-rate-limiter", from: "hono-rate-limiter", names: "rateLimiter" },
  { label: "@fastify/rate-limit", from: "@fastify/rate-limit", names: "default" },
  { label: "rate-limiter-flexible", from: "rate-limiter-flexible", names: "RateLimiterMemory" },
  { label: "express-rate-limit", from: "express-rate-limit", names: "rateLimit" },
];

export async function run(progress) {
  progress("bundles");
  const sizes = await Promise.all(imports.map(bundleSize));
  const times = imports.map(() => []);
  for (let repeat = 1; repeat <= repeats; repeat++) {
    progress(`cold import, repeat ${repeat} of ${repeats}`);
    for (const [i, { from }] of imports.entries()) times[i].push(await importMs(from));
  }
  const rows = imports.map(({ label, names = "-" }, i) => {
    return [label, names, sizes[i].min, sizes[i].gzip, spread(times[i])];
  });
  const own = imports.findIndex(({ label }) => label === "sluice");
  return [
    table(["import", "names", "minified B", "gzip -9 B", "cold import ms"], rows),
    goalTable([
      goal("bundle of memoryRateLimiter, gzip", [sizes[own].gzip], "<=", 5000, " B"),
      goal("bundle of redisRateLimiter, gzip", [sizes[own + 1].gzip], "<=", 7000, " B"),
      goal("bundle of rateLimit for Express, gzip", [sizes[own + 2].gzip], "<=", 11_000, " B"),
      goal("cold import", times[own], "<=", 10, " ms"),
    ]),
  ];
}

/** The size in bytes of a bundle of the given names, and of those of further imports, minified and compressed. */
export async function bundleSize({ from, names, also = [] }) {
  if (!names) return { min: "-", gzip: "-" };
  const lines = [{ from, names }, ...also].map(({ from, names }) => `export { ${names} } from "${from}"`);
  const { outputFiles } = await build({
    stdin: { contents: lines.join("\n"), resolveDir: here },
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    platform: "node",
    // Frameworks and optional peers are not part of the limiter.
    external: ["express", "fastify", "hono", "hono/*", "unstorage", "jose"],
    logLevel: "error",
  });
  const [{ contents }] = outputFiles;
  return { min: contents.length, gzip: gzipSync(contents, { level: 9 }).length };
}

/** The script imports nothing else: its `import()` includes the start of the module loader, like the empty module. */
async function importMs(from) {
  const script = `const start = performance.now();
    import(${JSON.stringify(from)}).then(() => {
      process.stdout.write(String(performance.now() - start), () => process.exit());
    });`;
  const { stdout } = await promisify(execFile)(process.execPath, ["-e", script], { cwd: here });
  return Number(stdout);
}
