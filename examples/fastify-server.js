/**
 * Fastify with a limit for the whole instance, and one for a route.
 * PORT=8787 node examples/fastify-server.js
 */
import Fastify from "fastify";
import { slidingLog, tokenBucket } from "sluice";
import { rateLimit } from "sluice/fastify";

const app = Fastify();

// Every route but one, and what is not found. Behind a proxy, name it in `identity`.
app.addHook(
  "onRequest",
  rateLimit({
    policy: tokenBucket("5/s", { burst: 10, name: "api" }),
    skip: (request) => request.routeOptions.url === "/health",
  }),
);

app.get("/health", async () => "ok\n");

// Only wrong passwords count: what succeeds is given back.
const logins = rateLimit({ policy: slidingLog("3/15m", { name: "login" }), refundIf: "succeeded" });
app.post("/login", { onRequest: logins }, async (request, reply) => {
  const { password } = /** @type {{ password?: string }} */ (request.body ?? {});
  if (password === "secret") return { welcome: true };
  return reply.code(401).send({ welcome: false });
});

app.get("/", async () => ({ hello: "world" }));

const url = await app.listen({ port: Number(process.env.PORT ?? 8787), host: "127.0.0.1" });
console.log(`sluice guards ${url}/ with Fastify`);

process.once("SIGINT", () => void app.close());
