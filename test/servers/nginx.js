/** Starts an nginx on loopback in front of another port. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ensureNginx, NGINX_PATH } from "./ensure-nginx.js";
import { freePort } from "./free-port.js";
import { reap, reaped, temporaryDir } from "./reaper.js";

const START_MS = 10_000;

/**
 * @typedef {object} NginxOptions
 * @property {number} to the local port to forward requests to
 * @property {Readonly<Record<string, string>>} [set] headers to set on forwarded requests, in nginx syntax:
 *   `{ "X-Real-IP": "$remote_addr" }`. An empty string removes a header.
 * @property {string} [http] directives of the `http` block, such as `map`
 */

/** @typedef {Awaited<ReturnType<typeof startNginx>>} Nginx */

/** Starts nginx and resolves when it listens. It ends with this process at the latest. */
export async function startNginx(/** @type {NginxOptions} */ options) {
  await ensureNginx();
  const dir = temporaryDir();
  for (let tries = 1; ; tries++) {
    const port = await freePort();
    try {
      const stop = await spawnNginx(dir, port, configOf(options, dir, port));
      return {
        port,
        url: `http://127.0.0.1:${port}/`,
        async stop() {
          await stop();
          rmSync(dir, { recursive: true, force: true });
        },
      };
    } catch (error) {
      if (/Address already in use/.test(String(error)) && tries < 5) continue;
      rmSync(dir, { recursive: true, force: true });
      throw error;
    }
  }
}

/** A single process, because workers outlive a killed master. */
function configOf(
  /** @type {NginxOptions} */ { to, set = {}, http = "" },
  /** @type {string} */ dir,
  /** @type {number} */ port,
) {
  const headers = Object.entries(set).map(([name, value]) => `proxy_set_header ${name} "${value}";`);
  const places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${dir}/${name};`,
  );
  return `
daemon off;
master_process off;
pid ${dir}/nginx.pid;
error_log stderr warn;
events { worker_connections 512; }
http {
  access_log off;
  ${places.join("\n  ")}
  ${http}
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://127.0.0.1:${to};
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      ${headers.join("\n      ")}
    }
  }
}
`;
}

/** Starts the process and returns a function that ends it. */
async function spawnNginx(/** @type {string} */ dir, /** @type {number} */ port, /** @type {string} */ config) {
  const file = join(dir, "nginx.conf");
  writeFileSync(file, config);
  const child = spawn("nginx", ["-p", dir, "-c", file, "-e", "stderr"], {
    env: { ...process.env, PATH: NGINX_PATH },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let log = "";
  child.stderr.on("data", (chunk) => (log = (log + chunk).slice(-4000)));
  const { pid } = child;
  if (pid === undefined) throw (await once(child, "error"))[0];
  reap(pid);
  const ended = once(child, "close").then(() => reaped(pid));
  const isAlive = () => child.exitCode === null && child.signalCode === null;

  const deadline = performance.now() + START_MS;
  // nginx writes its PID file when it listens.
  while (!existsSync(join(dir, "nginx.pid"))) {
    if (!isAlive()) {
      await ended;
      throw new Error(`nginx on port ${port} ended: ${log.trim()}`);
    }
    if (performance.now() > deadline) {
      child.kill("SIGKILL");
      throw new Error(`nginx on port ${port} did not listen within ${START_MS / 1000} s: ${log.trim()}`);
    }
    await sleep(20);
  }
  // Don't keep a program alive that does not stop it.
  child.unref();
  /** @type {import("node:net").Socket} */ (/** @type {unknown} */ (child.stderr)).unref();

  return async () => {
    if (isAlive()) child.kill("SIGTERM");
    // The timer also keeps this process alive until nginx has ended.
    const timer = setTimeout(() => child.kill("SIGKILL"), START_MS);
    await ended;
    clearTimeout(timer);
  };
}
