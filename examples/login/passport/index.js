/**
 * A login with Passport that redirects after right and wrong passwords alike. The handler reports which one it was.
 * Run it with: node examples/run.js login/passport
 */
import { env } from "node:process";
import express from "express";
import passport from "passport";
import { Strategy } from "passport-local";
import { abuse } from "sluice/abuse";
import { getRateLimit, rateLimit } from "sluice/express";
import { defineRules } from "sluice/rules";

passport.use(
  new Strategy((username, password, done) => {
    console.log(`checked a password for ${username}`);
    done(null, username === "ada" && password === "analytical engine" ? { name: "Ada" } : false);
  }),
);

// Without a challenge, the limit per account only flags requests.
const rules = defineRules({
  rules: [{ name: "login", match: "POST /login", preset: "login", action: { account: "flag" } }],
  fallback: { preset: "anonymous" },
});

const app = express().disable("x-powered-by");
app.use(express.urlencoded({ limit: "10kb", extended: false }));
app.use(
  rateLimit({
    rules,
    abuse: abuse({ penalty: [{}, { per: "ip+account" }] }),
    identity: "peer",
    facts: {
      account: (request) =>
        String(request.body?.username ?? "")
          .trim()
          .toLowerCase(),
    },
  }),
);
app.post(
  "/login",
  passport.authenticate("local", { session: false, failureRedirect: "/login?failed" }),
  // Passport calls this only after a right password.
  (request, response) => {
    getRateLimit(request)?.succeeded?.();
    response.redirect(303, "/welcome");
  },
);
app.get(["/", "/login"], (request, response) => {
  const message = "failed" in request.query ? "<p>Wrong name or password.</p>" : "";
  response.send(`${message}<form method="post" action="/login"><input name="username" placeholder="ada">
<input name="password" type="password" placeholder="analytical engine"><button>Log in</button></form>`);
});
app.get("/welcome", (_request, response) => void response.send("Welcome\n"));

const server = app.listen(Number(env.PORT ?? 8787), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}/`);
});
process.once("SIGINT", () => {
  server.close();
  server.closeAllConnections();
});
