/** A guarded HTTP API to try with curl: a burst of 10, then 5 requests a second for each address. */
import { createServer } from "node:http";
import { createLimiter, memoryStore, tokenBucket } from "sluice";
import { rateLimitHeaders, tooManyRequests } from "sluice/http";

const port = Number(process.env.PORT ?? 8787);
if (!Number.isInteger(port) || port < 0 || port > 65535) {
  console.error(`PORT must be a whole number from 0 to 65535, not ${JSON.stringify(process.env.PORT)}.`);
  process.exit(1);
}

const limiter = createLimiter({ policy: tokenBucket("5/s", { burst: 10, name: "api" }), store: memoryStore() });

const server = createServer((request, response) => {
  // The socket's peer is the only address that a client can't write itself.
  const decision = limiter.consumeSync(request.socket.remoteAddress ?? "unidentified");
  if (!decision.allowed) {
    const { status, headers, body } = tooManyRequests(decision, limiter.getPolicy(), {
      accept: request.headers.accept,
    });
    response.writeHead(status, headers).end(body);
    return;
  }
  response.writeHead(200, { ...rateLimitHeaders(decision, limiter.getPolicy()), "Content-Type": "application/json" });
  response.end(`${JSON.stringify({ hello: "world", remaining: decision.remaining })}\n`);
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

Ten requests pass and the next ones are denied. In another terminal:

  for i in $(seq 12); do curl -s -o /dev/null -w '%{http_code} ' ${url}; done; echo

What a denied client is told:

  for i in $(seq 12); do curl -si ${url} | grep -iE '^(HTTP|retry-after|ratelimit)'; done

Ctrl+C stops it.`);
});

process.once("SIGINT", () => {
  server.close(() => process.exit(0));
  server.closeAllConnections();
});
