/** Rules in a real app of Koa 3 with @koa/router: unusual spellings of paths. */
import type { RequestListener } from "node:http";
import Router from "@koa/router";
import type { Middleware } from "koa";
import { rateLimit } from "sluice/koa";
import { listen } from "../../test/middleware/mount.ts";
import { RULE_ROUTES, responseHeaders, ruleSpellings } from "../rule-spellings.ts";
import { versions } from "./app.ts";

for (const options of [{}, { strict: true, sensitive: true }]) {
  const name = "strict" in options ? "strict and case sensitive" : "default options";
  ruleSpellings(`Koa 3 with @koa/router, ${name}`, (limit) => {
    const [, Koa3] = versions[0] as (typeof versions)[0];
    const app = new Koa3();
    app.on("error", () => {});
    app.use(rateLimit(limit));
    const router = new Router(options);
    for (const [handler, path] of RULE_ROUTES) {
      router.get(path.replace("/*", "/{*rest}"), (context) => {
        context.set(responseHeaders(handler, context.req.url));
        context.body = "ok";
      });
    }
    app.use(router.routes() as unknown as Middleware);
    return listen(app.callback() as RequestListener);
  });
}
