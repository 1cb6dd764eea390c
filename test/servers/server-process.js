/** One redis-server process: started, killed, frozen and started again on the same port. */
import { rmSync } from "node:fs";
import { ensureRedis } from "./ensure-redis.js";
import { freePort } from "./free-port.js";
import { temporaryDir } from "./reaper.js";
import { connect } from "./resp.js";
import { spawnServer } from "./spawn-server.js";

const TERM_MS = 500;

/**
 * @typedef {object} Launch
 * @property {(port: number, dir: string) => string[]} args of redis-server
 * @property {(port: number, dir: string) => void | Promise<void>} [prepare] writes files before the first start
 * @property {number} [port] without it a free one, and another if somebody takes that in between
 * @property {string} [dir] without it a temporary one, which goes with the server
 * @property {NodeJS.ProcessEnv} [env] added to that of this process
 */

/** @typedef {Awaited<ReturnType<typeof startProcess>>} ServerProcess */

export async function startProcess(/** @type {Launch} */ launch) {
  await ensureRedis();
  const dir = launch.dir ?? temporaryDir();
  const clean = () => {
    if (launch.dir === undefined) rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
  };
  const env = { ...process.env, ...launch.env };
  const begin = (/** @type {number} */ port) => spawnServer(launch.args(port, dir), port, env);

  let { port, child } = await beginSomewhere(launch, dir, begin).catch((error) => {
    clean();
    throw error;
  });
  let paused = false;
  let stopped = false;
  const signal = (/** @type {NodeJS.Signals} */ name) => {
    if (!child.alive) throw new Error(`redis-server on port ${port} is not running, so it cannot get ${name}`);
    process.kill(child.pid, name);
  };
  const kill = async () => {
    if (child.alive) process.kill(child.pid, "SIGKILL");
    await child.ended();
    paused = false;
  };

  return {
    port,
    dir,
    url: `redis://127.0.0.1:${port}`,
    get pid() {
      return child.pid;
    },
    /** Whether it is there and not frozen. */
    get running() {
      return child.alive && !paused;
    },
    /** The last lines that it wrote. */
    log: () => child.log(),
    /** Ends it for good; a frozen one too. */
    async stop() {
      stopped = true;
      if (child.alive) {
        process.kill(child.pid, "SIGTERM");
        process.kill(child.pid, "SIGCONT");
        const timer = setTimeout(() => child.alive && process.kill(child.pid, "SIGKILL"), TERM_MS);
        await child.ended();
        clearTimeout(timer);
      }
      paused = false;
      clean();
    },
    /** Ends it as a crash would. */
    kill,
    /** Starts it again with the same port, directory and options. */
    async restart() {
      if (stopped) throw new Error(`redis-server on port ${port} was stopped, and its directory is gone`);
      await kill();
      child = await begin(port);
    },
    /** Freezes it: connections stay open and nothing is answered. */
    pause() {
      signal("SIGSTOP");
      paused = true;
    },
    resume() {
      signal("SIGCONT");
      paused = false;
    },
    /** Sends one command over a connection of its own. */
    async call(/** @type {import("./resp.js").Argument[]} */ ...args) {
      const connection = await connect(port);
      try {
        return await connection.call(...args);
      } finally {
        connection.close();
      }
    },
  };
}

async function beginSomewhere(
  /** @type {Launch} */ launch,
  /** @type {string} */ dir,
  /** @type {(port: number) => ReturnType<typeof spawnServer>} */ begin,
) {
  for (let tries = 1; ; tries++) {
    const port = launch.port ?? (await freePort());
    await launch.prepare?.(port, dir);
    try {
      return { port, child: await begin(port) };
    } catch (error) {
      const taken = /Address already in use/.test(String(error));
      if (!taken || launch.port !== undefined || tries === 5) throw error;
    }
  }
}
