/**
 * Compares two builds: `node bench/compare.js <old dist> <new dist> [case ...]`. Every measurement has a process of its own,
 * and the builds take turns. Prints the CPU time per call of both, and the median of the ratios of neighbours: other programs
 * on the machine affect it less than the time. SLUICE_PAIRS sets the number of pairs.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { CASES } from "./compare-child.js";

const PAIRS = Number(process.env.SLUICE_PAIRS ?? 9);
/** Requests per measurement, and before it, on connections that are kept alive. */
const REQUESTS = 30_000;
const WARM_UP = 10_000;
const CONNECTIONS = 16;

const [oldDist, newDist, ...named] = process.argv.slice(2);
if (!oldDist || !newDist) throw new Error("Usage: node bench/compare.js <old dist> <new dist> [case ...]");
const builds = [oldDist, newDist].map((dist) => pathToFileURL(`${resolve(dist)}/`).href);
const child = fileURLToPath(new URL("compare-child.js", import.meta.url));

console.log("| case | old, µs | new, µs | new / old |\n|---|---|---|---|");
for (const name of named.length > 0 ? named : Object.keys(CASES)) {
  const times = [[], []];
  const ratios = [];
  for (let pair = 0; pair < PAIRS; pair++) {
    // Which comes first alternates too.
    const order = pair % 2 === 0 ? [0, 1] : [1, 0];
    for (const i of order) times[i].push(await measure(builds[i], name));
    ratios.push(times[1].at(-1) / times[0].at(-1));
  }
  const [before, after] = times.map((list) => median(list).toFixed(2));
  console.log(`| ${name} | ${before} | ${after} | ${median(ratios).toFixed(3)} |`);
}

/** The CPU time of one call in µs. */
async function measure(dist, name) {
  const measured = fork(child, [dist, name]);
  const [first] = await once(measured, "message");
  if (first.cpuUs !== undefined) return first.cpuUs;
  await load(first.port, WARM_UP);
  measured.send("start");
  await once(measured, "message");
  await load(first.port, REQUESTS);
  measured.send("stop");
  const [{ cpuUs }] = await once(measured, "message");
  measured.kill();
  return cpuUs / REQUESTS;
}

/** Sends requests on several connections, each after the response to the last one. */
async function load(port, requests) {
  const each = Math.ceil(requests / CONNECTIONS);
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      const socket = connect(port, "127.0.0.1").setNoDelay();
      await once(socket, "connect");
      for (let i = 0; i < each; i++) {
        socket.write("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n");
        await response(socket);
      }
      socket.destroy();
    }),
  );
}

/** Waits until a response is complete: a head with its length, and so many bytes. */
function response(socket) {
  return new Promise((resolve) => {
    let text = "";
    const read = (chunk) => {
      text += chunk.toString("latin1");
      const end = text.indexOf("\r\n\r\n");
      const length = /content-length: (\d+)/i.exec(text.slice(0, end))?.[1];
      const isChunked = end >= 0 && length === undefined;
      if (end < 0 || (isChunked ? !text.endsWith("0\r\n\r\n") : text.length < end + 4 + Number(length))) return;
      socket.off("data", read);
      resolve(undefined);
    };
    socket.on("data", read);
  });
}

function median(list) {
  return [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
}
