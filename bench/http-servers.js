/** Servers for `http-throughput`: the same app on several ports, without a limiter, with sluice and with another limiter. */
import { rateLimit as expressPeer } from "express-rate-limit";
import { rateLimiter as honoPeer } from "hono-rate-limiter";

/** A limit that is never reached, and one that the second request exceeds. */
const AMPLE = { capacity: 1_000_000_000, tokensPerSecond: 1_000_000, name: "api" };
const SPENT = { capacity: 1, tokensPerSecond: "1/d", name: "api" };

const sluice = {
  "no limiter": undefined,
  "sluice, draft-8": { policy: AMPLE },
  "sluice, no headers": { policy: AMPLE, headers: false },
  "sluice, denied": { policy: SPENT },
};
const ample = { limit: 1_000_000_000, windowMs: 3_600_000 };
const spent = { limit: 1, windowMs: 86_400_000 };

async function express() {
  const { default: express } = await import("express");
  const { rateLimit } = await import("../dist/express.js");
  const appWith = (guard) => {
    const app = express();
    if (guard) app.use(guard);
    app.get("/", (_request, response) => response.send("hello"));
    return (listening) => {
      const server = app.listen(0, "127.0.0.1", () => listening(server.address().port));
    };
  };
  return {
    ...own(rateLimit, appWith),
    "does nothing": appWith((_request, _response, next) => next()),
    "express-rate-limit": appWith(expressPeer({ ...ample, standardHeaders: "draft-8", legacyHeaders: false })),
    "express-rate-limit, denied": appWith(expressPeer({ ...spent, standardHeaders: "draft-8", legacyHeaders: false })),
  };
}

async function fastify() {
  const { default: fastify } = await import("fastify");
  const { default: peer } = await import("@fastify/rate-limit");
  const { rateLimit } = await import("../dist/fastify.js");
  const appWith = (guard, plugin) => async (listening) => {
    const app = fastify();
    if (guard) app.addHook("onRequest", guard);
    if (plugin) await app.register(peer, plugin);
    app.get("/", (_request, reply) => reply.send("hello"));
    await app.listen({ port: 0, host: "127.0.0.1" });
    listening(app.server.address().port);
  };
  const withPeer = ({ limit, windowMs }) => appWith(undefined, { max: limit, timeWindow: windowMs });
  return {
    ...own(rateLimit, appWith),
    "does nothing": appWith((_request, _reply, done) => done()),
    "@fastify/rate-limit": withPeer(ample),
    "@fastify/rate-limit, denied": withPeer(spent),
  };
}

async function hono() {
  const { Hono } = await import("hono");
  const { serve } = await import("@hono/node-server");
  const { rateLimit } = await import("../dist/hono.js");
  const appWith = (guard) => (listening) => {
    const app = new Hono();
    if (guard) app.use(guard);
    app.get("/", (context) => context.text("hello"));
    serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, ({ port }) => listening(port));
  };
  const keyGenerator = (context) => context.env.incoming.socket.remoteAddress;
  return {
    ...own(rateLimit, appWith),
    "does nothing": appWith(async (_context, next) => {
      await next();
    }),
    "hono-rate-limiter": appWith(honoPeer({ ...ample, standardHeaders: "draft-7", keyGenerator })),
    "hono-rate-limiter, denied": appWith(honoPeer({ ...spent, standardHeaders: "draft-7", keyGenerator })),
  };
}

function own(rateLimit, appWith) {
  return Object.fromEntries(
    Object.entries(sluice).map(([name, options]) => [name, appWith(options && rateLimit(options))]),
  );
}

// The argument is the framework. Sends the ports to the parent, then the CPU time on every message.
const variants = await { express, fastify, hono }[process.argv[2]]();
const ports = {};
for (const [name, start] of Object.entries(variants)) ports[name] = await new Promise(start);
process.on("message", () => process.send({ cpuUs: Object.values(process.cpuUsage()).reduce((a, b) => a + b) }));
process.send({ ports });
