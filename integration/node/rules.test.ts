/** Rules on `node:http`: unusual spellings of paths, with routers that compare the target or parse it as a URL. */
import type { RequestListener } from "node:http";
import { type NodeHandler, rateLimit } from "sluice/node";
import { listen } from "../../test/middleware/mount.ts";
import { responseHeaders, routeNameOf, ruleSpellings } from "../rule-spellings.ts";

const READERS: readonly (readonly [name: string, pathOf: (target: string) => string])[] = [
  ["node:http", (target) => target.split("?", 1)[0] as string],
  ["node:http with URL", (target) => new URL(target, "http://localhost").pathname],
  ["node:http with URL, decoded", (target) => decodeURIComponent(new URL(target, "http://localhost").pathname)],
];

for (const [name, pathOf] of READERS) {
  ruleSpellings(name, (options) => {
    const handler: NodeHandler = ({ url = "" }, response) => {
      let route: ReturnType<typeof routeNameOf>;
      try {
        route = routeNameOf(pathOf(url));
      } catch {
        response.writeHead(400).end();
        return;
      }
      if (route) response.writeHead(200, responseHeaders(route, url)).end("ok");
      else response.writeHead(404).end();
    };
    return listen(rateLimit(options)(handler) as RequestListener);
  });
}
