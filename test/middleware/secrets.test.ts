/** API keys and tokens are secrets: none appears in Redis, a header, a body, an event or an error. */
import * as jose from "jose";
import { createLimiter, tokenBucket } from "sluice";
import { partitionKey } from "sluice/http";
import { type NodeRateLimitOptions, rateLimit } from "sluice/node";
import { redisStore } from "sluice/redis";
import { expect, it } from "vitest";
import { redis } from "../redis/own-redis.ts";
import { withRedis } from "../servers/needs.ts";
import { until } from "../servers/until.js";
import { listen } from "./mount.ts";

const API_KEY = "sk_live_canary_4713";
const WRONG_KEY = "sk_live_canary_4714";
const SECRET = "canary-secret-canary-secret-canary";

it("exposes no API key and no token", withRedis, async () => {
  const commands: string[] = [];
  const monitor = await redis.monitor();
  monitor.on("monitor", (_time: string, args: string[]) => commands.push(JSON.stringify(args)));
  const reported: unknown[] = [];
  const limiter = createLimiter({
    policy: tokenBucket("2/h", { name: "secrets" }),
    store: redisStore(redis),
    localDenialMs: 0,
    onEvent: (event) => void reported.push(event),
  });
  const options: NodeRateLimitOptions = {
    limiter,
    identity: {
      jwt: { algorithms: ["HS256"], secret: SECRET },
      apiKey: {
        verify(key) {
          if (key === "broken") throw new Error("the database is down");
          return key === API_KEY;
        },
      },
    },
    headers: { mode: ["draft-8", "legacy"], partitionKey: partitionKey("pepper") },
    onDecision: ({ key, decision }) => void reported.push([key, decision]),
    onEvent: (event) => void reported.push(event),
    onError: (error) => void reported.push([String(error), (error as Error).stack]),
  };
  const server = await listen(rateLimit(options)((_request, response) => void response.end("ok")));
  const token = await new jose.SignJWT({ sub: "alice" })
    .setProtectedHeader({ alg: "HS256" })
    .sign(new TextEncoder().encode(SECRET));
  const forged = `${token}x`;
  const responses: string[] = [];
  for (const headers of [
    ...new Array<Record<string, string>>(3).fill({ "x-api-key": API_KEY }),
    ...new Array<Record<string, string>>(3).fill({ "x-api-key": WRONG_KEY }),
    { authorization: `Bearer ${token}` },
    { authorization: `Bearer ${forged}` },
    { "x-api-key": "broken" },
  ]) {
    const response = await fetch(server.url, { headers });
    responses.push(`${response.status} ${JSON.stringify([...response.headers])} ${await response.text()}`);
  }
  expect(responses.map((response) => response.slice(0, 3))).toEqual("200 200 429 200 200 429 200 429 500".split(" "));
  // The monitor reports commands asynchronously: wait until it has reported all of them.
  await until("the monitor did not report all commands", async () => {
    const count = commands.filter((command) => /evalsha/i.test(command)).length;
    return count >= 8 ? undefined : `${count} scripts`;
  });
  const keys = await redis.keys("*");
  expect(keys).toHaveLength(3);
  monitor.disconnect();
  await server.close();
  for (const text of [...commands, ...keys, ...responses, JSON.stringify(reported)]) {
    for (const secret of [API_KEY, WRONG_KEY, token, SECRET, forged]) expect(text).not.toContain(secret);
  }
});
