/**
 * Runs an example in a clone of the repository: `node examples/run.js express-server`. Installs and builds what is missing first.
 * Starts a temporary Redis for the examples that need one, unless REDIS_URL is set.
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { argv, env } from "node:process";
import { fileURLToPath } from "node:url";
import { installSluice, prepareRepository } from "./install-sluice.js";

const here = fileURLToPath(new URL(".", import.meta.url));

const NEEDS_REDIS = ["redis-server", "login", "monitoring", "payments", "saas", "migrating/from-rate-limiter-flexible"];
const UPSTASH = "migrating/from-upstash-ratelimit";

const name = (argv[2] ?? "").replace(/\.js$/, "");
const isWorker = existsSync(join(here, name, "wrangler.jsonc"));
const file = [`${name}.js`, `${name}/index.js`].find((file) => existsSync(join(here, file)));
if (name === "" || !(isWorker || file)) {
  console.error("Usage: node examples/run.js <example>. examples/README.md lists the examples.");
  process.exit(1);
}

prepareRepository();
if (isWorker) runWorker(join(here, name));
else if (name === UPSTASH) await runOnUpstash();
else {
  // An example with packages of its own.
  if (existsSync(join(here, name, "package.json"))) installSluice(join(here, name));
  if (NEEDS_REDIS.includes(name)) env.REDIS_URL ??= (await startRedis()).url;
  await import(`./${file}`);
}

/** Runs `wrangler dev`, on port 8787 or PORT. */
function runWorker(/** @type {string} */ folder) {
  if (Number.parseInt(process.versions.node, 10) < 22) {
    console.error(`wrangler needs Node 22 or newer, and this is Node ${process.versions.node}.`);
    process.exit(1);
  }
  installSluice(folder);
  const wrangler = join(folder, "node_modules/wrangler/bin/wrangler.js");
  const args = [wrangler, "dev", "--ip", "127.0.0.1", "--port", env.PORT ?? "8787"];
  const child = spawn(process.execPath, args, { cwd: folder, stdio: "inherit" });
  for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM"])) process.on(signal, () => child.kill(signal));
  child.on("exit", (code) => process.exit(code ?? 1));
}

/** Serves the example on Node, with a temporary Redis behind a local copy of Upstash's REST API unless one is configured. */
async function runOnUpstash() {
  if (!env.UPSTASH_REDIS_REST_URL) {
    const { startUpstashBridge } = await import("../test/servers/upstash-bridge.js");
    const bridge = await startUpstashBridge((await startRedis()).port);
    Object.assign(env, { UPSTASH_REDIS_REST_URL: bridge.url, UPSTASH_REDIS_REST_TOKEN: bridge.token });
    process.once("SIGINT", () => bridge.stop());
  }
  const { default: app } = await import("./migrating/from-upstash-ratelimit.js");
  const { serve } = await import("@hono/node-server");
  const options = { fetch: app.fetch, port: Number(env.PORT ?? 8787), hostname: "127.0.0.1" };
  const server = serve(options, ({ port }) => console.log(`http://127.0.0.1:${port}/`));
  process.once("SIGINT", () => void server.close());
}

/** Starts a redis-server that ends with this process. */
async function startRedis() {
  // An example must not install system packages.
  env.SLUICE_NO_APT = "1";
  const { startRedis } = await import("../test/servers/redis-server.js");
  return startRedis();
}
