/**
 * Counts the function calls of the package in one call after a warm-up, and the source files that they are in:
 * `node scripts/count-calls.js`. Builds the package with source maps into a temporary folder. Needs redis-server, and the
 * packages of `integration/express` and `integration/hono`; walks whose packages are missing are listed as such.
 */
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:http";
import { Session } from "node:inspector/promises";
import { createRequire, SourceMap } from "node:module";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Redis } from "ioredis";
import { startRedis } from "../test/servers/redis-server.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const WARM_UP = 200;
/** Below the root, so that the build resolves the packages of the root. */
const dist = mkdtempSync(join(root, ".count-calls-"));

const session = new Session();
session.connect();
/** @type {Map<string, { map: SourceMap, lineStarts: number[] }>} */
const maps = new Map();

/** The source map of a built file, and where its lines start. */
function mapOf(/** @type {string} */ file) {
  let entry = maps.get(file);
  if (!entry) {
    const lineStarts = [0];
    for (const { index } of readFileSync(file, "utf8").matchAll(/\n/g)) lineStarts.push(index + 1);
    entry = { map: new SourceMap(JSON.parse(readFileSync(`${file}.map`, "utf8"))), lineStarts };
    maps.set(file, entry);
  }
  return entry;
}

/** The source file of a function of the package. */
function sourceOf(/** @type {string} */ file, /** @type {number} */ offset) {
  const { map, lineStarts } = mapOf(file);
  let line = 0;
  while ((lineStarts[line + 1] ?? Number.POSITIVE_INFINITY) <= offset) line++;
  const entry = map.findEntry(line, offset - (lineStarts[line] ?? 0));
  return "originalSource" in entry ? entry.originalSource : file;
}

/** Calls and files of one call. */
async function count(/** @type {() => unknown} */ call) {
  for (let i = 0; i < WARM_UP; i++) await call();
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  await session.post("Profiler.takePreciseCoverage");
  await call();
  const { result } = await session.post("Profiler.takePreciseCoverage");
  await session.post("Profiler.stopPreciseCoverage");
  const prefix = pathToFileURL(dist).href;
  const files = new Set();
  let calls = 0;
  for (const { url, functions } of result.filter(({ url }) => url.startsWith(prefix))) {
    for (const { ranges } of functions) {
      const { startOffset = 0, count = 0 } = ranges[0] ?? {};
      if (count === 0 || startOffset === 0) continue;
      calls += count;
      files.add(sourceOf(fileURLToPath(url), startOffset));
    }
  }
  return { calls, files: files.size };
}

const get = (/** @type {number} */ port) => () =>
  new Promise((resolve, reject) => {
    const sent = request({ port, host: "127.0.0.1" }, (response) => response.resume().on("end", resolve));
    sent.on("error", reject).end();
  });

/** Runs a server of a framework that is installed in integration/, and counts one request. */
async function countRequest(/** @type {"express" | "hono"} */ framework, /** @type {string} */ policy) {
  const packages = join(root, "integration", framework);
  if (!existsSync(join(packages, "node_modules"))) return undefined;
  const require = createRequire(join(packages, "package.json"));
  const load = async (/** @type {string} */ name) => import(pathToFileURL(require.resolve(name)).href);
  const { rateLimit } = await import(pathToFileURL(join(dist, `${framework}.js`)).href);
  const start = /** @type {(typeof SERVERS)[string]} */ (SERVERS[framework]);
  const server = await start(load, rateLimit({ policy }));
  await once(server, "listening");
  try {
    return await count(get(/** @type {import("node:net").AddressInfo} */ (server.address()).port));
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** @type {Record<string, (load: (name: string) => Promise<any>, middleware: unknown) => Promise<import("node:http").Server>>} */
const SERVERS = {
  async express(load, middleware) {
    const app = (await load("express")).default();
    app.use(middleware);
    app.get("/", (/** @type {unknown} */ _request, /** @type {any} */ response) => void response.send("ok"));
    return app.listen(0, "127.0.0.1");
  },
  async hono(load, middleware) {
    const { Hono } = await load("hono");
    const { serve } = await load("@hono/node-server");
    const app = new Hono();
    app.use(middleware);
    app.get("/", (/** @type {any} */ context) => context.text("ok"));
    return serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
  },
};

/** @type {[string, { calls: number, files: number } | undefined][]} */
const rows = [];
const redis = await startRedis();
const client = new Redis(redis.port, "127.0.0.1");
try {
  execFileSync("npx", ["tsdown", "--config-loader", "native", "--logLevel", "warn", "--out-dir", dist, "--no-dts"], {
    cwd: root,
    env: { ...process.env, SLUICE_SOURCEMAPS: "1" },
    stdio: ["ignore", "inherit", "inherit"],
  });
  await session.post("Profiler.enable");
  const { combine, memoryRateLimiter } = await import(pathToFileURL(join(dist, "index.js")).href);
  const { redisRateLimiter } = await import(pathToFileURL(join(dist, "redis.js")).href);
  const memory = memoryRateLimiter("1000000/s");
  const one = redisRateLimiter(client, { name: "one", capacity: 1e6, tokensPerSecond: 1e6 });
  const two = redisRateLimiter(client, { name: "two", capacity: 1e6, tokensPerSecond: 1e6 });
  const both = combine([one, two]);
  rows.push(["memory consumeSync", await count(() => memory.consumeSync("a"))]);
  rows.push(["Redis consume", await count(() => one.consume("a"))]);
  rows.push(["Redis combine of 2", await count(() => both.consume("a"))]);
  const granted = await one.consume("a", 300);
  rows.push(["Redis refund", await count(() => one.refund("a", 1, granted))]);
  rows.push(["Express allowed", await countRequest("express", "1000000/s")]);
  rows.push(["Express 429", await countRequest("express", "1/d")]);
  rows.push(["Hono allowed", await countRequest("hono", "1000000/s")]);
  rows.push(["Hono 429", await countRequest("hono", "1/d")]);
} finally {
  client.disconnect();
  await redis.stop();
  rmSync(dist, { recursive: true, force: true });
}
console.log("| walk | calls | files |\n|---|---|---|");
for (const [name, counted] of rows) {
  console.log(counted ? `| ${name} | ${counted.calls} | ${counted.files} |` : `| ${name} | not installed | |`);
}
process.exit();
