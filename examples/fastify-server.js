/**
 * Fastify with two limits: one per IP address for all routes, and one for failed logins.
 * Run it with: node examples/run.js fastify-server
 */
import Fastify from "fastify";
import { slidingLog, tokenBucket } from "sluice";
import { rateLimit } from "sluice/fastify";

const app = Fastify();

// Every route but the health check, and requests without a route. Behind a proxy, set `identity`.
app.addHook(
  "onRequest",
  rateLimit({
    policy: tokenBucket("5/s", { burst: 10, name: "api" }),
    skip: (request) => request.routeOptions.url === "/health",
  }),
);

app.get("/health", async () => "ok\n");

// Counts failed logins only: successful ones are refunded.
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
