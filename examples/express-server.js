/**
 * Express with two limits: one per IP address for all routes, and one for failed logins.
 * Run it with: node examples/run.js express-server
 */
import express from "express";
import { slidingLog, tokenBucket } from "sluice";
import { rateLimit } from "sluice/express";

const app = express();

// Before the limiter: health checks must never be rejected.
app.get("/health", (_request, response) => void response.send("ok\n"));

// Before body parsing, so that rejected requests cost nothing. Behind a proxy, set `identity`.
app.use(rateLimit({ policy: tokenBucket("5/s", { burst: 10, name: "api" }) }));
app.use(express.json());

// Counts failed logins only: successful ones are refunded.
const logins = rateLimit({ policy: slidingLog("3/15m", { name: "login" }), refundIf: "succeeded" });
app.post("/login", logins, (request, response) => {
  if (request.body?.password === "secret") response.json({ welcome: true });
  else response.status(401).json({ welcome: false });
});

app.get("/", (_request, response) => void response.json({ hello: "world" }));

const server = app.listen(Number(process.env.PORT ?? 8787), "127.0.0.1", () => {
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  console.log(`sluice guards http://127.0.0.1:${port}/ with Express`);
});

process.once("SIGINT", () => {
  server.close();
  server.closeAllConnections();
});
