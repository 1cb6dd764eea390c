/**
 * Opens and closes 10 000 sockets of the `ws` package in every way. Checks that no limit of open connections is exceeded,
 * that others are rejected before the upgrade, that each count is released once, and that the heap does not grow.
 */
import { fork } from "node:child_process";
import { on } from "node:events";
import { fileURLToPath } from "node:url";
import { install } from "../runtime-tests/install.js";
import { seedOf } from "./random.js";

/** Without optimised code on the heap, which would grow it by 5 to 11 %, and by 8 % without a guard. */
const FLAGS = ["--expose-gc", "--no-opt", "--no-sparkplug"];

export async function* wsSockets() {
  install(fileURLToPath(new URL("../integration/ws", import.meta.url)));
  const seed = seedOf("SLUICE_SEED");
  const file = fileURLToPath(new URL("ws-sockets-server.js", import.meta.url));
  const server = fork(file, [String(seed)], { execArgv: FLAGS });
  const ended = new Promise((resolve) => server.once("exit", resolve));
  for await (const [claim] of on(server, "message", { close: ["disconnect"] })) yield claim;
  const code = await ended;
  const failures = code === 0 ? [] : [`the server exited with ${code} (SLUICE_SEED=${seed})`];
  yield { claim: "sockets: the server", details: `exited with ${code}; seed ${seed}`, failures };
}
