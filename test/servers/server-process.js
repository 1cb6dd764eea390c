/** A redis-server process that can be killed, paused and restarted on the same port. */
import { rmSync } from "node:fs";
import { ensureRedis } from "./ensure-redis.js";
import { freePort } from "./free-port.js";
import { temporaryDir } from "./reaper.js";
import { connect } from "./resp.js";
import { spawnServer } from "./spawn-server.js";

const TERM_MS = 500;

/**
 * @typedef {object} Launch
 * @property {(port: number, dir: string) => string[]} args returns the options of redis-server
 * @property {(port: number, dir: string) => void | Promise<void>} [prepare] writes files before the first start
 * @property {number} [port] default: a free port, or another one if it is taken meanwhile
 * @property {string} [dir] default: a temporary directory, deleted with the server
 * @property {NodeJS.ProcessEnv} [env] added to the environment of this process
 */

/** @typedef {Awaited<ReturnType<typeof startProcess>>} ServerProcess */

/** Starts the process and resolves when it listens. */
export async function startProcess(/** @type {Launch} */ launch) {
  await ensureRedis();
  const dir = launch.dir ?? temporaryDir();
  const deleteDir = () => {
    if (launch.dir === undefined) rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
  };
  const env = { ...process.env, ...launch.env };
  const start = (/** @type {number} */ port) => spawnServer(launch.args(port, dir), port, env);

  let { port, child } = await startOnFreePort(launch, dir, start).catch((error) => {
    deleteDir();
    throw error;
  });
  let paused = false;
  let stopped = false;
  const signal = (/** @type {NodeJS.Signals} */ name) => {
    if (!child.alive) throw new Error(`redis-server on port ${port} is not running and can't receive ${name}`);
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
    /** Whether the process is running and not paused. */
    get running() {
      return child.alive && !paused;
    },
    /** The last lines of its log. */
    log: () => child.log(),
    /** Stops the process, also if it is paused, and deletes its directory. */
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
      deleteDir();
    },
    /** Kills the process like a crash. */
    kill,
    /** Restarts it with the same port, directory and options. */
    async restart() {
      if (stopped) throw new Error(`redis-server on port ${port} was stopped and can't be restarted`);
      await kill();
      child = await start(port);
    },
    /** Pauses the process: connections stay open without replies. */
    pause() {
      signal("SIGSTOP");
      paused = true;
    },
    resume() {
      signal("SIGCONT");
      paused = false;
    },
    /** Sends one command over a new connection. */
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

async function startOnFreePort(
  /** @type {Launch} */ launch,
  /** @type {string} */ dir,
  /** @type {(port: number) => ReturnType<typeof spawnServer>} */ start,
) {
  for (let tries = 1; ; tries++) {
    const port = launch.port ?? (await freePort());
    await launch.prepare?.(port, dir);
    try {
      return { port, child: await start(port) };
    } catch (error) {
      const taken = /Address already in use/.test(String(error));
      if (!taken || launch.port !== undefined || tries === 5) throw error;
    }
  }
}
