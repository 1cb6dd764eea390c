/**
 * Express with two limits: one for everything by address, and one for wrong passwords.
 * PORT=8787 node examples/express-server.js
 */
import express from "express";
import { slidingLog, tokenBucket } from "sluice";
import { rateLimit } from "sluice/express";

const app = express();

// What must always answer comes first.
app.get("/health", (_request, response) => void response.send("ok\n"));

// Before bodies are parsed: that is what a flood would make you pay for. Behind a proxy, name it in `identity`.
app.use(rateLimit({ policy: tokenBucket("5/s", { burst: 10, name: "api" }) }));
app.use(express.json());

// Only wrong passwords count: what succeeds is given back.
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
