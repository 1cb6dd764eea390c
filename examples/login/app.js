/** An Express app with a login that is hard to guess and hard to lock someone out of. Its limits are in rules.js. */
import { fileURLToPath } from "node:url";
import express from "express";
import { abuse, challenge } from "sluice/abuse";
import { getRateLimit, rateLimit } from "sluice/express";
import { checkPassword, endSession, sessionOf, startSession } from "./accounts.js";
import { operatorRoutes } from "./operator.js";
import { accountPage, loginPage } from "./pages.js";
import { createRules } from "./rules.js";

/** @typedef {import("express").Request} Request */

/**
 * @typedef {object} AppOptions
 * @property {import("sluice").Store} store where limits and blocks are kept
 * @property {import("sluice/abuse").ChallengeProvider} provider who verifies that a client is human
 * @property {string} clearanceSecret signs clearances; at least 32 random bytes
 * @property {string} operatorToken lets operators block and unblock
 */

const publicFolder = fileURLToPath(new URL("public", import.meta.url));
const cookie = /** @type {const} */ ({ httpOnly: true, secure: true, sameSite: "lax", path: "/" });

/** Creates the app. */
export function createApp(/** @type {AppOptions} */ { store, provider, clearanceSecret, operatorToken }) {
  const rules = createRules({ store });
  const prevention = abuse({
    penalty: [{}, { per: "ip+account" }],
    challenge: challenge({ provider, secret: [clearanceSecret] }),
    traps: ["/wp-login.php", "/.env", "/.git/*"],
  });
  const app = express().disable("x-powered-by");
  // Before the limits: operators must get in when their own address is blocked.
  app.use("/operator", operatorRoutes(prevention, operatorToken));
  // The limits need the account in the body, and the session.
  app.use(express.json({ limit: "10kb" }), express.urlencoded({ limit: "10kb", extended: false }));
  app.use(
    rateLimit({
      rules,
      abuse: prevention,
      // Requests of a proxy on this machine name their client in X-Forwarded-For.
      identity: { trustedProxies: ["127.0.0.0/8", "::1"] },
      facts: { account: emailOf, user: (/** @type {Request} */ request) => sessionOf(request)?.email },
    }),
  );

  const policy = contentPolicy(provider);
  app.use((_request, response, next) => {
    response.set({ "Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff" });
    next();
  });
  app.use(express.static(publicFolder));
  app.get("/", (request, response) => {
    const account = sessionOf(request);
    response.set("Cache-Control", "no-store").send(account ? accountPage(account) : loginPage(provider));
  });
  app.post("/login", async (request, response) => {
    const isScript = Boolean(request.is("json"));
    const email = emailOf(request) ?? "";
    const account = await checkPassword(email, String(request.body?.password ?? ""));
    if (account) {
      // The preset refunds what the handler reports, and nothing else: a status does not tell right from wrong.
      getRateLimit(request)?.succeeded?.();
      response.cookie("__Host-session", startSession(account), cookie);
      return void (isScript ? response.json({ name: account.name }) : response.redirect(303, "/"));
    }
    response.status(401);
    if (isScript) response.json({ error: "wrong-password" });
    else response.send(loginPage(provider, { email, message: "Wrong email or password." }));
  });
  app.post("/logout", (request, response) => {
    endSession(request);
    response.clearCookie("__Host-session", cookie).redirect(303, "/");
  });
  app.post("/mfa", (request, response) => {
    response.sendStatus(sessionOf(request) && request.body?.code === "123456" ? 204 : 401);
  });
  app.post("/signup", (_request, response) => void response.sendStatus(201));
  app.post("/password-resets", (request, response) => {
    // The response is the same whether or not a mail is sent: it must not reveal which accounts exist.
    if (!getRateLimit(request)?.limited) console.log("A mail with a link would be sent now.");
    response.sendStatus(202);
  });
  return app;
}

/** The account that a request is about. One spelling, or each would have limits of its own. */
function emailOf(/** @type {Request} */ request) {
  const email = request.body?.email;
  return typeof email === "string" && email.trim() !== "" ? email.trim().toLowerCase() : undefined;
}

/** Allows the scripts of this app and the provider's widget. */
function contentPolicy(/** @type {import("sluice/abuse").ChallengeProvider} */ { scriptUrl, frameOrigin }) {
  return [
    "default-src 'self'",
    `script-src 'self' ${new URL(scriptUrl).origin}`,
    `frame-src ${frameOrigin}`,
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
  ].join("; ");
}
