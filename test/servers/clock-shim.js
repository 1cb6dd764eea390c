/** A redis-server whose wall clock a test can set. Needs Linux and a C compiler; check `hasCompiler` first. */
import { spawnSync } from "node:child_process";
import { closeSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { temporaryDir } from "./reaper.js";
import { startRedis } from "./redis-server.js";

const SOURCE = fileURLToPath(new URL("clock-shim.c", import.meta.url));

/** @typedef {Awaited<ReturnType<typeof startShiftedRedis>>} ShiftedRedis */

/** @type {{ library: string } | { problem: string } | undefined} */
let compiled;

/** Whether the shim can be built. Compiles it, because the C headers may be missing. */
export function hasCompiler() {
  compiled ??= compile();
  return "library" in compiled;
}

/** Like `startRedis`, with a clock that can be shifted. */
export async function startShiftedRedis(/** @type {import("./redis-server.js").RedisOptions} */ options = {}) {
  compiled ??= compile();
  if ("problem" in compiled) throw new Error(`The clock shim can't be built: ${compiled.problem}`);
  const path = join(temporaryDir(), "offset");
  writeFileSync(path, Buffer.alloc(8));
  const file = openSync(path, "r+");
  let open = true;
  const close = () => {
    if (open) closeSync(file);
    open = false;
  };

  const env = { ...options.env, LD_PRELOAD: compiled.library, SLUICE_CLOCK_OFFSET: path };
  const server = await startRedis({ ...options, env }).catch((error) => {
    close();
    throw error;
  });
  const { stop } = server;
  return Object.assign(server, {
    async stop() {
      await stop();
      close();
    },
    /** Sets the offset of the server's clock from real time in ms. */
    shift(/** @type {number} */ ms) {
      // A typed array has native byte order, which the server expects.
      writeSync(file, new BigInt64Array([BigInt(ms)]), 0, 8, 0);
    },
  });
}

/** @returns {{ library: string } | { problem: string }} */
function compile() {
  if (process.platform !== "linux") return { problem: `it needs Linux, and this is ${process.platform}` };
  const library = join(temporaryDir(), "clock-shim.so");
  let problem = "there is neither gcc nor cc";
  for (const compiler of ["gcc", "cc"]) {
    const { error, status, stderr } = spawnSync(compiler, ["-O2", "-shared", "-fPIC", "-o", library, SOURCE]);
    if (status === 0) return { library };
    if (!error) problem = `${compiler}: ${stderr}`;
  }
  return { problem };
}
