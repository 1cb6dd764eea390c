/** Rules in real apps of Hono 4 and in a `fetch` handler, on Node: unusual spellings of paths. */
import type { IncomingMessage } from "node:http";
import { Hono } from "hono";
import { rateLimit as limitFetch } from "sluice/fetch";
import { rateLimit } from "sluice/hono";
import { RULE_ROUTES, responseHeaders, routeNameOf, ruleSpellings } from "../rule-spellings.ts";
import { served } from "./served.ts";

/** The second argument of handlers in Deno, which has the address of the client. */
interface DenoInfo {
  readonly remoteAddr: { readonly hostname: string };
}

/** The target in the URL of a request, without the fragment: what a middleware for `Request` sees. */
const targetOf = (url: string) => url.slice(url.indexOf("/", url.indexOf("//") + 2)).split("#", 1)[0];

for (const strict of [true, false]) {
  ruleSpellings(`Hono 4, ${strict ? "strict" : "not strict"}`, (options) => {
    const app = new Hono({ strict });
    app.onError((_error, context) => context.text("error", 500));
    app.use(rateLimit(options));
    for (const [handler, path] of RULE_ROUTES) {
      app.get(path, (context) => context.text("ok", 200, responseHeaders(handler, targetOf(context.req.url))));
    }
    return served(app);
  });
}

ruleSpellings("fetch handler", (options) => {
  const limited = limitFetch(options)((request: Request, _info: DenoInfo) => {
    const handler = routeNameOf(new URL(request.url).pathname);
    if (!handler) return new Response("", { status: 404 });
    return new Response("ok", { headers: responseHeaders(handler, targetOf(request.url)) });
  });
  const fetch = (request: Request, { incoming }: { incoming: IncomingMessage }) =>
    limited(request, { remoteAddr: { hostname: incoming.socket.remoteAddress as string } });
  return served({ fetch: fetch as unknown as Hono["fetch"] });
});
