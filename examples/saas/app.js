/** An Express app with 50 endpoints. Its limits are in rules.js. */
import { randomBytes } from "node:crypto";
import { env } from "node:process";
import express from "express";
import { abuse, challenge, turnstile } from "sluice/abuse";
import { getRateLimit, rateLimit } from "sluice/express";
import { createRules } from "./rules.js";

/** @typedef {import("express").Request & { session?: Record<string, string> }} Request */

// Without configuration, Turnstile's keys for tests, which accept every solution. All processes need the same clearance key.
const provider = turnstile({
  siteKey: env.TURNSTILE_SITE_KEY ?? "1x00000000000000000000AA",
  secret: env.TURNSTILE_SECRET_KEY ?? "1x0000000000000000000000000000000AA",
});
const clearanceKey = env.CLEARANCE_KEY ?? randomBytes(32);

/** Creates the app. `options` are those of the rules, such as their store. */
export function createApp(/** @type {import("sluice/rules").RulesOptions} */ options) {
  const rules = createRules(options);
  const app = express();
  const identity = { trustedProxies: ["127.0.0.0/8", "::1"] };

  // In memory, before anything is parsed. The rules below need the session and the body.
  app.use(rateLimit({ policy: "5000/s", identity, headers: false }));
  app.use(express.json(), authenticate);
  app.use(
    rateLimit({
      rules,
      identity,
      abuse: abuse({ penalty: {}, challenge: challenge({ provider, secret: [clearanceKey] }) }),
      facts: {
        user: (/** @type {Request} */ request) => request.session?.user,
        tenant: (/** @type {Request} */ request) => request.session?.tenant,
        plan: (/** @type {Request} */ request) => request.session?.plan,
        account: (request) => request.body?.email?.trim().toLowerCase(),
        items: (request) => request.body?.tasks?.length ?? 1,
        tokens: (request) => request.body?.max_tokens ?? 4096,
      },
      onDecision({ decision, rule, mode }) {
        if (mode === "shadow" && !decision.allowed) console.log(`${rule} would have denied a request`);
      },
    }),
  );

  app.post("/v1/password-resets", (request, response) => {
    // The response is the same whether or not a mail is sent: it must not reveal which accounts exist.
    const sendsMail = !getRateLimit(request)?.limited;
    if (sendsMail) void sendMail();
    response.status(202).json({});
  });
  app.post("/v1/sessions", (request, response) => {
    const isRight = request.body?.password === "right";
    // Attempts stay charged, except those that are reported as succeeded.
    if (isRight) getRateLimit(request)?.succeeded?.();
    response.status(isRight ? 200 : 401).json({});
  });
  app.post("/v1/ai/chat", (request, response) => {
    const used = Math.min(request.body?.max_tokens ?? 4096, 1000);
    // The estimate is held. This is what is charged when the response ends.
    getRateLimit(request)?.settle?.({ tokens: used });
    response.json({ used });
  });
  app.use((_request, response) => void response.json({}));
  return { app, rules };
}

/**
 * Replace this with your authentication: it must verify who the user is. Here a header says so.
 * @param {import("express").Request} request
 * @param {import("express").Response} _response
 * @param {() => void} next
 */
function authenticate(request, _response, next) {
  const session = request.get("x-session");
  if (session) {
    const [user, tenant, plan] = session.split(" ");
    Object.assign(request, { session: { user, tenant, plan } });
  }
  next();
}

async function sendMail() {}
