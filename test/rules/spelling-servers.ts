/** The same routes on every supported server. Each handler responds with its route and the target that a gate would see. */
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import express, { type Express } from "express";
import Fastify from "fastify";
import { Hono } from "hono";

/** The routes, as patterns of rules. The last two are unlimited. */
export const ROUTES = ["/v1/login", "/v1/files/:id", "/v1/:team/members", "/v1/*", "/healthz", "/static/*"] as const;
export const UNLIMITED: readonly string[] = ["/healthz", "/static/*"];

export interface SpellingServer {
  readonly name: string;
  /** Whether its router distinguishes case. */
  readonly isCaseSensitive: boolean;
  start(): Promise<{ port: number; close(): void }>;
}

interface ExpressOptions {
  strict?: boolean;
  caseSensitive?: boolean;
  isMounted?: boolean;
}

/** Express 4 has a folder of its own: `npm ci` in `integration/express` installs it. */
function loadExpress4(): typeof express | undefined {
  try {
    return createRequire(new URL("../../integration/express/package.json", import.meta.url))("express4");
  } catch {
    return undefined;
  }
}

const reply = (route: string, target: string) => JSON.stringify({ route, target });

function onExpress(library: typeof express, wildcard: string, options: ExpressOptions): RequestListener {
  const { strict = false, caseSensitive = false, isMounted = false } = options;
  const app = library();
  app.set("strict routing", strict);
  app.set("case sensitive routing", caseSensitive);
  const mounted = isMounted ? library.Router({ strict, caseSensitive }) : undefined;
  for (const route of ROUTES) {
    const isInRouter = mounted !== undefined && route.startsWith("/v1/");
    const path = (isInRouter ? route.slice("/v1".length) : route).replace("*", wildcard);
    (isInRouter ? mounted : app).get(path, (request, response) => {
      response.type("json").send(reply(route, request.originalUrl));
    });
  }
  if (mounted) app.use("/v1", mounted);
  return withoutErrorLog(app);
}

/** Express logs errors without a handler, such as a malformed percent-encoding. */
function withoutErrorLog(app: Express): RequestListener {
  app.set("env", "test");
  return app as unknown as RequestListener;
}

async function onFastify(routerOptions: object): Promise<RequestListener> {
  const app = Fastify({ routerOptions });
  for (const route of ROUTES) {
    app.get(route, async (request, answer) =>
      answer.type("application/json").send(reply(route, request.raw.url as string)),
    );
  }
  await app.ready();
  return (request, response) => app.routing(request, response);
}

/** What a gate for fetch handlers takes from a URL. */
const targetOf = (url: string) => url.slice(url.indexOf("/", url.indexOf("://") + 3));

function onHono(strict: boolean): RequestListener {
  const app = new Hono({ strict });
  for (const route of ROUTES) app.get(route, (context) => context.body(reply(route, targetOf(context.req.url))));
  app.onError((_error, context) => context.text("error", 500));
  return getRequestListener(app.fetch);
}

/** A router written by hand, as in a server without framework. */
function routeOf(path: string): string | undefined {
  if (path === "/v1/login") return "/v1/login";
  if (/^\/v1\/files\/[^/]+$/.test(path)) return "/v1/files/:id";
  if (/^\/v1\/[^/]+\/members$/.test(path)) return "/v1/:team/members";
  if (path.startsWith("/v1/")) return "/v1/*";
  if (path === "/healthz") return "/healthz";
  return path.startsWith("/static/") ? "/static/*" : undefined;
}

const onNode =
  (pathOf: (request: IncomingMessage) => string): RequestListener =>
  (request, response) => {
    try {
      const route = routeOf(pathOf(request));
      if (route) response.end(reply(route, request.url as string));
      else response.writeHead(404).end();
    } catch {
      response.writeHead(400).end();
    }
  };

const onFetch = getRequestListener((request: Request) => {
  const route = routeOf(new URL(request.url).pathname);
  return route ? new Response(reply(route, targetOf(request.url))) : new Response("", { status: 404 });
});

const pathnameOf = ({ url }: IncomingMessage) => new URL(url as string, "http://localhost").pathname;

function server(name: string, isCaseSensitive: boolean, create: () => RequestListener | Promise<RequestListener>) {
  return { name, isCaseSensitive, start: async () => listen(createServer(await create())) };
}

async function listen(http: Server): Promise<{ port: number; close(): void }> {
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  return {
    port: (http.address() as AddressInfo).port,
    close() {
      http.close();
      http.closeAllConnections();
    },
  };
}

const EXPRESS_OPTIONS: readonly ExpressOptions[] = [
  {},
  { strict: true },
  { caseSensitive: true },
  { strict: true, caseSensitive: true },
  { isMounted: true },
];

function expressServers(version: number, library: typeof express, wildcard: string): SpellingServer[] {
  return EXPRESS_OPTIONS.map((options) =>
    server(`Express ${version} ${Object.keys(options).join(", ")}`.trim(), options.caseSensitive === true, () =>
      onExpress(library, wildcard, options),
    ),
  );
}

const express4 = loadExpress4();
export const hasExpress4 = express4 !== undefined;

export const SERVERS: readonly SpellingServer[] = [
  ...expressServers(5, express, "*rest"),
  ...(express4 ? expressServers(4, express4, "*") : []),
  server("Fastify", true, () => onFastify({})),
  server("Fastify caseSensitive: false", false, () => onFastify({ caseSensitive: false })),
  server("Fastify ignoreTrailingSlash", true, () => onFastify({ ignoreTrailingSlash: true })),
  server("Fastify ignoreDuplicateSlashes", true, () => onFastify({ ignoreDuplicateSlashes: true })),
  server("Fastify, all three", false, () =>
    onFastify({ caseSensitive: false, ignoreTrailingSlash: true, ignoreDuplicateSlashes: true }),
  ),
  server("Hono", true, () => onHono(true)),
  server("Hono strict: false", true, () => onHono(false)),
  server("node:http", true, () => onNode(({ url }) => (url as string).split("?", 1)[0] as string)),
  server("node:http with URL", true, () => onNode(pathnameOf)),
  server("node:http with URL, decoded", true, () => onNode((request) => decodeURIComponent(pathnameOf(request)))),
  server("fetch", true, () => onFetch),
];
