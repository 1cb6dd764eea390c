/**
 * Limits concurrent requests per client with Express: sends 500 requests, 50 at a time, and counts how many run at once.
 * Run it with: node examples/run.js concurrency
 */
import { LIMIT, startServer } from "./server.js";

const REQUESTS = 500;
const AT_A_TIME = 50;
const CLIENTS = ["ada", "eve", "max"];
const PATHS = ["/report", "/stream", "/broken", "/report", "/stream"];

const server = await startServer();
const counts = { served: 0, failed: 0, disconnected: 0, rejected: 0 };
let sent = 0;

/** Sends one request after the other until all were sent. */
async function work() {
  while (sent < REQUESTS) {
    const i = sent++;
    const client = /** @type {string} */ (CLIENTS[i % CLIENTS.length]);
    // Every seventh client gives up after 5 ms.
    const signal = i % 7 === 6 ? AbortSignal.timeout(5) : null;
    try {
      const response = await fetch(server.url + PATHS[i % PATHS.length], { headers: { "X-Client": client }, signal });
      await response.text();
      if (response.status === 429) {
        counts.rejected++;
        // A slot is free as soon as another response has ended, so a short wait is enough.
        await new Promise((resolve) => setTimeout(resolve, 20));
      } else if (response.ok) counts.served++;
      else counts.failed++;
    } catch {
      counts.disconnected++;
    }
  }
}

await Promise.all(Array.from({ length: AT_A_TIME }, work));
// The server notices the last disconnections later than the clients.
let held = 1;
while (held > 0) {
  await new Promise((resolve) => setTimeout(resolve, 10));
  const decisions = await Promise.all(CLIENTS.map((client) => server.limiter.peek(`client:${client}`)));
  held = decisions.reduce((sum, decision) => sum + (decision.held ?? 0), 0);
}
console.log(`${REQUESTS} requests, ${AT_A_TIME} at a time, from ${CLIENTS.length} clients
  served           ${counts.served}
  failed           ${counts.failed}
  disconnected     ${counts.disconnected}
  rejected         ${counts.rejected}, with 429
  most at once     ${server.mostAtOnce} per client, limit ${LIMIT}
  held at the end  ${held}`);
if (server.mostAtOnce > LIMIT) process.exitCode = 1;
server.stop();
