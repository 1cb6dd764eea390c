/** A node:http server with `rateLimit({ rules, observer })` and the dashboard below `/_sluice`. */
import { once } from "node:events";
import { createServer, request as sendRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { type Clock, memoryStore, type Store, tokenBucket } from "sluice";
import { rateLimit, toNodeHandler } from "sluice/node";
import { createObserver, dashboard, type LoopbackToken, loopbackToken } from "sluice/observe";
import { defineRules } from "sluice/rules";

/** A name that would run a script if it were HTML. */
export const SCRIPT_NAME = "<img src=x onerror=alert(1)>";

const RULES = {
  rules: [
    { name: "login", match: "POST /login", limits: { ip: "5/h log" } },
    { name: "search", match: ["GET /search", "GET /suggest"], limits: { ip: "20/h log" }, mode: "shadow" },
    { name: "orders", match: "/v1/orders/:id", limits: { ip: "100/h log" } },
    { name: "reports", match: "GET /v1/reports", limits: { ip: "10/h log" } },
  ],
  fallback: { limits: { ip: "5000/h log" } },
} as const;

export interface DashboardAppOptions {
  /** Default: a free port. */
  port?: number;
  /** Default: a new token. */
  access?: LoopbackToken;
  store?: Store;
  clock?: Clock;
}

/** Starts the server. Clients choose their address with `X-Forwarded-For`. */
export async function startDashboardApp(options: DashboardAppOptions = {}) {
  const { port = 0, access = loopbackToken(), store = memoryStore(), clock } = options;
  const observer = createObserver({ secret: "a secret of this test", ...(clock && { clock }) });
  const rules = defineRules(RULES, { store, observer });
  const page = dashboard(observer, { authorize: access.authorize, rules });
  const identity = { trustedProxies: ["127.0.0.0/8"] };
  const limit = rateLimit({ rules, observer, identity });
  const named = rateLimit({ policy: tokenBucket("1/h", { name: SCRIPT_NAME }), observer, identity });
  const ok = limit((_request, response) => void response.end("ok"));
  const script = named((_request, response) => void response.end("ok"));
  const mounted = toNodeHandler(page);
  const responses: string[] = [];
  const foreign: string[] = [];
  const server = createServer((request, response) => {
    const { url = "" } = request;
    if (/^\/_sluice(?:[/?]|$)/.test(url)) {
      const isForeign = request.headers["sec-fetch-site"] === "same-site";
      response.once("finish", () => (isForeign ? foreign : responses).push(`${response.statusCode} ${url}`));
      mounted(request, response);
    } else if (url === "/script") script(request, response);
    else ok(request, response);
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const actual = (server.address() as AddressInfo).port;
  return {
    port: actual,
    access,
    observer,
    store,
    /** Status and path of the dashboard's responses. */
    responses,
    /** The same for requests of pages of another origin. */
    foreign,
    url: `http://127.0.0.1:${actual}`,
    page: `http://127.0.0.1:${actual}/_sluice`,
    /** Sends requests one after the other, and returns how many got each status. */
    async send(count: number, path: string, { method = "GET", ip = "203.0.113.7" } = {}) {
      const statuses: Record<number, number> = {};
      for (let i = 0; i < count; i++) {
        const response = await fetch(`http://127.0.0.1:${actual}${path}`, {
          method,
          headers: { "X-Forwarded-For": ip },
        });
        await response.arrayBuffer();
        statuses[response.status] = (statuses[response.status] ?? 0) + 1;
      }
      return statuses;
    },
    async close() {
      page.dispose();
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

/** The status of a request with headers that `fetch` does not send, such as `Host`. */
export async function statusOf(url: string, headers: Record<string, string>, method = "GET"): Promise<number> {
  const request = sendRequest(url, { method, headers });
  request.end();
  const [response] = await once(request, "response");
  response.destroy();
  return response.statusCode;
}
