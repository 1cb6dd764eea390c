/** Rules in real apps of Express 4 and 5: unusual spellings of paths, and a middleware that is mounted at a path. */
import type { RequestListener } from "node:http";
import type { Request, Response } from "express5";
import { rateLimit } from "sluice/express";
import { loadRules } from "sluice/rules";
import { describe, expect, it, onTestFinished } from "vitest";
import { listen } from "../../test/middleware/mount.ts";
import { policiesOf, RULE_ROUTES, responseHeaders, ruleSpellings } from "../rule-spellings.ts";
import { sendRequest } from "../send-request.ts";
import { versions } from "./app.ts";

for (const [name, express] of versions) {
  const wildcard = name === "Express 5" ? "*rest" : "*";

  ruleSpellings(name, (options) => {
    const app = express();
    app.set("env", "test");
    app.use(rateLimit(options));
    for (const [handler, path] of RULE_ROUTES) {
      app.get(path.replace("*", wildcard), (request: Request, response: Response) => {
        response.set(responseHeaders(handler, request.originalUrl)).send("ok");
      });
    }
    return listen(app as RequestListener);
  });

  describe(`${name}, rules`, () => {
    it("match the path that the middleware is mounted at", async () => {
      const rules = loadRules(
        {
          rules: [
            { name: "login", match: "/v1/login", limits: { ip: "1/d" } },
            { name: "relative", match: "/login", limits: { ip: "100/d" } },
          ],
          fallback: { limits: { ip: "1000/d" } },
        },
        { facts: [] },
      );
      const app = express();
      const router = express.Router();
      router.get("/login", (_request, response) => void response.send("ok"));
      app.use("/v1", rateLimit({ rules }), router);
      app.get("/free", (_request, response) => void response.send("ok"));
      const { url, close } = await listen(app as RequestListener);
      onTestFinished(close);
      const sent = [];
      for (const path of ["/v1/login", "/V1/Login/", "/v1/login?a", "/v1/else", "/free"]) {
        const { status, header } = await sendRequest(url, path);
        sent.push([status, policiesOf(header("RateLimit-Policy")).sort()]);
      }
      expect(sent).toEqual([
        [200, ["login.ip"]],
        [429, ["fallback.ip", "login.ip"]],
        [429, ["login.ip"]],
        [404, ["fallback.ip"]],
        [200, []],
      ]);
    });
  });
}
