/** Rules in a real app of h3 2, on Node: unusual spellings of paths. */
import { H3 } from "h3";
import { toNodeHandler } from "h3/node";
import { rateLimit } from "sluice/h3";
import { listen } from "../../test/middleware/mount.ts";
import { RULE_ROUTES, responseHeaders, ruleSpellings } from "../rule-spellings.ts";

/** The target in the URL of a request, without the fragment: what the middleware sees. */
const targetOf = (url: string) => url.slice(url.indexOf("/", url.indexOf("//") + 2)).split("#", 1)[0];

ruleSpellings("h3 2", (options) => {
  const app = new H3({ silent: true });
  app.use(rateLimit(options));
  for (const [handler, path] of RULE_ROUTES) {
    app.get(path.replace("/*", "/**"), ({ req }) => {
      return new Response("ok", { headers: responseHeaders(handler, targetOf(req.url)) });
    });
  }
  return listen(toNodeHandler(app) as never);
});
