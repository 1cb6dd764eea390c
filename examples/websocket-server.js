/**
 * A chat for a browser that limits each client to bursts of 10 messages, refilled at 2 per second. After 50 denied messages it
 * closes the connection. With REDIS_URL set, several servers on different ports share the limit.
 * Run it with: node examples/run.js websocket-server
 */
import { createServer } from "node:http";
import { Redis } from "ioredis";
import { memoryRateLimiter, tokenBucket } from "sluice";
import { redisRateLimiter } from "sluice/redis";
import { guardWs, jsonType } from "sluice/ws";
import { WebSocketServer } from "ws";

const port = Number(process.env.PORT ?? 8787);
const policy = tokenBucket("2/s", { burst: 10, name: "messages" });
const redis = process.env.REDIS_URL
  ? new Redis(process.env.REDIS_URL, { autoResendUnfulfilledCommands: false })
  : undefined;

const PAGE = `<!doctype html><meta charset="utf-8"><title>sluice</title>
<style>body { font: 16px system-ui; margin: 2rem; max-width: 40rem } .notice { color: #c8500a }</style>
<h1>A guarded chat</h1>
<p><button>Send one</button> <button>Send twenty</button></p>
<ol></ol>
<script>
const socket = new WebSocket(location.href.replace("http", "ws"));
const write = (text, kind = "") => {
  const line = document.querySelector("ol").appendChild(document.createElement("li"));
  line.textContent = text;
  line.className = kind;
};
let n = 0;
const send = () => socket.send(JSON.stringify({ type: "say", text: "message " + ++n }));
const [one, twenty] = document.querySelectorAll("button");
one.onclick = send;
twenty.onclick = () => { for (let i = 0; i < 20; i++) send(); };
socket.onmessage = ({ data }) => {
  const { type, text, payload } = JSON.parse(data);
  if (type === "ERROR") write(payload.code + ": try again in " + payload.retryAfterMs + " ms", "notice");
  else write(text);
};
socket.onclose = ({ code, reason }) => write("closed with " + code + " " + reason, "notice");
</script>`;

const server = createServer((_request, response) => {
  response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" }).end(PAGE);
});
const wss = new WebSocketServer({ server, autoPong: false });

const guard = guardWs(wss, {
  upgrades: memoryRateLimiter(tokenBucket("30/m", { name: "upgrades" })),
  maxOpenPerAddress: 5,
  maxBytes: 4096,
  limits: { limiter: redis ? redisRateLimiter(redis, policy) : memoryRateLimiter(policy) },
  typeOf: jsonType(),
  types: ["say"],
  closeAfter: 50,
  onLimitExceeded: ({ type, key, action }) => console.log(`${type} exceeded by ${key}: ${action}`),
  onError: (error) => console.error(error),
});

wss.on("connection", (socket, request) => {
  guard.attach(socket, request, (frame) => {
    const { text } = JSON.parse(String(frame));
    for (const client of wss.clients) client.send(JSON.stringify({ type: "said", text }));
  });
});

server.listen(port, "127.0.0.1", () => {
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  console.log(`Open http://127.0.0.1:${port}/ in a browser. Ctrl+C stops it.`);
});

process.once("SIGINT", () => {
  for (const client of wss.clients) client.terminate();
  server.close(() => process.exit(0));
  server.closeAllConnections();
  redis?.disconnect();
});
