/** An Express app on Redis whose page ends in a challenge after one request, through `rateLimit({ rules, abuse })`. */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import express from "express";
import type { Redis } from "ioredis";
import type { LimiterEvent } from "sluice";
import { abuse, challenge, turnstile } from "sluice/abuse";
import { rateLimit } from "sluice/express";
import { redisStore } from "sluice/redis";
import { defineRules } from "sluice/rules";
import type { SiteverifyServer } from "../../test/servers/siteverify.js";

/** The secret that the stand-in of the provider accepts. */
export const PROVIDER_SECRET = "0x4AAAAAAAsecret-of-provider";

export const TTL_MS = 600_000;

/** Starts the app. `GET /page` needs a clearance from the second request of an IP address on. */
export async function startProtectedApp(redis: Redis, siteverify: SiteverifyServer) {
  const page = { name: "page", match: "GET /page", limits: { ip: "1/h log" }, action: "challenge" } as const;
  const rules = defineRules(
    { rules: [{ ...page, withClearance: { ip: "3/h log" } }], fallback: { limits: { ip: "1000/h" } } },
    { store: redisStore(redis) },
  );
  const provider = turnstile({ siteKey: "site-key", secret: PROVIDER_SECRET, url: siteverify.url });
  const prevention = abuse({
    challenge: challenge({
      provider: { ...provider, ...siteverify.page },
      secret: ["a key of at least thirty-two bytes"],
      ttl: TTL_MS,
    }),
  });
  const events: LimiterEvent[] = [];
  const app = express();
  const identity = { trustedProxies: ["127.0.0.0/8"] };
  app.get("/favicon.ico", (_request, response) => void response.sendStatus(204));
  app.use(rateLimit({ rules, abuse: prevention, identity, onEvent: (event) => void events.push(event) }));
  app.use(
    (_request, response) => void response.send('<!doctype html><html lang="en"><title>App</title><h1>Welcome</h1>'),
  );
  const listener = app.listen(0, "127.0.0.1");
  await once(listener, "listening");
  return {
    // Not 127.0.0.1, where the widget is: it has to work across sites.
    url: `http://localhost:${(listener.address() as AddressInfo).port}`,
    /** Events of the middleware, such as `provider-down`. */
    events,
    close() {
      listener.close();
      listener.closeAllConnections();
    },
  };
}
