/** An observer with a sample of every metric, each from the real cause: for tests of names, dashboards and alerts. */
import { Redis } from "ioredis";
import { createLimiter, memoryStore } from "sluice";
import { abuse, challenge, turnstile } from "sluice/abuse";
import { idempotent, rateLimit } from "sluice/fetch";
import { memoryIdempotencyStore } from "sluice/idempotency";
import { createObserver, type Observer } from "sluice/observe";
import { redisRateLimiter } from "sluice/redis";
import { defineRules } from "sluice/rules";

/** Creates the observer. `prepare` is called before anything is observed: OpenTelemetry's histograms count from then on. */
export async function observeEverything(redis: Redis, prepare: (observer: Observer) => void = () => {}) {
  const observer = createObserver();
  prepare(observer);
  const rules = defineRules(
    {
      rules: [
        { name: "search", match: "/search", limits: { ip: "1/h log" }, penalty: true },
        { name: "shadow", match: "/shadow", mode: "shadow", limits: { ip: "1/h log" } },
        { name: "page", match: "/page", limits: { ip: "1/h log" }, action: "challenge" },
      ],
      fallback: "unlimited",
    },
    { onEvent() {} },
  );
  const provider = turnstile({ siteKey: "site-key", secret: "0x4AAAAAAAsecret-of-provider" });
  const limited = rateLimit({
    rules,
    observer,
    identity: { trustedProxies: 1, header: "x-client" },
    abuse: abuse({
      penalty: { strikes: 1, block: "1h" },
      challenge: challenge({ provider, secret: ["a key of at least thirty-two bytes"] }),
    }),
    onEvent() {},
  });
  const once = idempotent({
    store: memoryIdempotencyStore(),
    scope: () => "canary",
    replayLimit: "100/s",
    observer,
    onEvent() {},
  });
  const handler = once(limited(() => new Response("ok")));
  const send = (path: string, ip: string, headers: Record<string, string> = {}) =>
    handler(new Request(`http://localhost${path}`, { method: "POST", headers: { "x-client": ip, ...headers } }));
  for (const path of ["/page", "/shadow", "/search"]) for (let i = 0; i < 3; i++) await send(path, "203.0.113.7");
  for (let i = 0; i < 2; i++) await send("/other", "203.0.113.8", { "idempotency-key": "canary" });
  try {
    await rules.replace({ rules: "canary" } as never);
  } catch {
    // Invalid on purpose, so that the reload is rejected.
  }

  const full = createLimiter({
    policy: { capacity: 5, tokensPerSecond: 0.01, name: "full" },
    store: memoryStore({ maxKeys: 1 }),
    observer,
  });
  for (const key of ["canary-1", "canary-2", "canary-3"]) full.consumeSync(key);

  await redisRateLimiter(redis, { capacity: 5, tokensPerSecond: 1, name: "remote" }, { observer }).consume("canary");
  const unreachable = new Redis(1, { lazyConnect: true, retryStrategy: () => null });
  unreachable.on("error", () => {});
  const policy = { capacity: 5, tokensPerSecond: 1, name: "unreachable" };
  await redisRateLimiter(unreachable, policy, { observer, onEvent() {} }).consume("canary");
  unreachable.disconnect();
  return observer;
}
