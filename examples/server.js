/**
 * An HTTP API to try with curl: each IP address gets bursts of 10 requests, refilled at 5 per second. A dashboard shows
 * what happens, on this machine only.
 * Run it with: node examples/run.js server
 */
import { createServer } from "node:http";
import { tokenBucket } from "sluice";
import { rateLimit, toNodeHandler } from "sluice/node";
import { createObserver, dashboard, loopbackToken } from "sluice/observe";

const port = Number(process.env.PORT ?? 8787);
if (!Number.isInteger(port) || port < 0 || port > 65535) {
  console.error(`PORT must be a whole number from 0 to 65535, not ${JSON.stringify(process.env.PORT)}.`);
  process.exit(1);
}

const observer = createObserver();
const { token, authorize } = loopbackToken();
const page = toNodeHandler(dashboard(observer, { authorize }));

const limit = rateLimit({
  policy: tokenBucket("5/s", { burst: 10, name: "api" }),
  observer,
  onError: (error) => console.error(error),
});

const api = limit((_request, response) => {
  response.writeHead(200, { "Content-Type": "application/json" }).end('{"hello":"world"}\n');
});

const server = createServer((request, response) => {
  // Before the limiter: the page must open while the API rejects requests.
  if (/^\/_sluice(?:[/?]|$)/.test(request.url ?? "")) page(request, response);
  else api(request, response);
});

server.on("error", (/** @type {NodeJS.ErrnoException} */ error) => {
  const hint =
    error.code === "EADDRINUSE" ? `Port ${port} is taken. Choose another one: PORT=8788 npm start` : error.message;
  console.error(hint);
  process.exit(1);
});

server.listen(port, "127.0.0.1", () => {
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  const url = `http://127.0.0.1:${port}/`;
  console.log(`sluice guards ${url} with a burst of 10, then 5 requests a second.

Ten requests are allowed and the next ones are rejected. In another terminal:

  for i in $(seq 12); do curl -s -o /dev/null -w '%{http_code} ' ${url}; done; echo

To see the headers of the responses:

  for i in $(seq 12); do curl -si ${url} | grep -iE '^(HTTP|retry-after|ratelimit)'; done

Dashboard: ${url}_sluice?token=${token}
Ctrl+C stops it.`);
});

process.once("SIGINT", () => {
  server.close(() => process.exit(0));
  server.closeAllConnections();
});
