/**
 * 10 000 real sockets of the `ws` package, opened and closed in every way at once: never more are open than may be,
 * whoever has no room is told before the upgrade, each is given back once, and nothing of them stays.
 */
import { fork } from "node:child_process";
import { on } from "node:events";
import { fileURLToPath } from "node:url";
import { install } from "../runtime-tests/install.js";
import { seedOf } from "./random.js";

/** V8 goes on compiling what runs often, and keeps that on the heap: 5 to 11 % here, and 8 % without a guard. */
const FLAGS = ["--expose-gc", "--no-opt", "--no-sparkplug"];

export async function* wsSockets() {
  install(fileURLToPath(new URL("../integration/ws", import.meta.url)));
  const seed = seedOf("SLUICE_SEED");
  const file = fileURLToPath(new URL("ws-sockets-server.js", import.meta.url));
  const server = fork(file, [String(seed)], { execArgv: FLAGS });
  const ended = new Promise((resolve) => server.once("exit", resolve));
  for await (const [claim] of on(server, "message", { close: ["disconnect"] })) yield claim;
  const code = await ended;
  const failures = code === 0 ? [] : [`it ended with ${code} (SLUICE_SEED=${seed})`];
  yield { claim: "sockets: the server", figures: `ended with ${code}; seed ${seed}`, failures };
}
