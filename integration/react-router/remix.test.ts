/** `sluice/fetch` around `createRequestHandler` of Remix 2, served on Node. */
import { createRequestHandler, type ServerBuild } from "@remix-run/node";
import { type FetchRateLimitOptions, getRateLimit, idempotent, rateLimit } from "sluice/fetch";
import { type GuardedRoute, guardedRoutes, middlewareSuite } from "sluice/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { inOrder } from "../../test/middleware/in-order.ts";
import { FETCH_WITHOUT, fetchKit, NODE_REQUEST_WITHOUT } from "../../test/middleware/mount.ts";
import { serveFetch } from "../../test/middleware/serve-fetch.ts";
import { createServer } from "./remix-server.ts";

/** Remix replaces the result of a request that was aborted. */
const REPLACED = "Remix replaces the result of a request that was aborted by an error";
const ABORTED = {
  "keeps the slot of a client that has disconnected until its handler ends": REPLACED,
  "stores the response to a client that has disconnected, for its retry": REPLACED,
};

/** A build with one resource route, as the compiler of Remix writes it. */
function buildOf(respond: (request: Request, context: object) => Promise<Response>): ServerBuild {
  const handle = ({ request, context }: { request: Request; context: object }) => respond(request, context);
  const route = { id: "suite", path: "*", module: { loader: handle, action: handle } };
  return {
    entry: { module: { default: () => new Response("no page", { status: 500 }), handleError() {} } },
    routes: { suite: route },
    assets: { entry: { imports: [], module: "" }, routes: {}, url: "", version: "" },
    publicPath: "/",
    assetsBuildDirectory: "",
    future: { v3_fetcherPersist: true, v3_relativeSplatPath: true, v3_throwAbortReason: true },
    isSpaMode: false,
  } as unknown as ServerBuild;
}

function remixApp(routes: readonly GuardedRoute[]) {
  const handlers = routes.map((route) => {
    // Loaders get a copy of the request, so the decision is passed in the load context.
    const handler = createRequestHandler(
      buildOf(async (request, context) => {
        const { signal } = request;
        const disconnected = new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
        const { decision } = context as { decision?: never };
        const { status, headers, body } = await route.handle(new URL(request.url).pathname, disconnected, decision);
        const sent = new Headers(route.before as Record<string, string>);
        for (const [name, value] of Object.entries(headers)) {
          sent.delete(name);
          for (const one of [value].flat()) sent.append(name, one);
        }
        return new Response(status === 204 || status === 304 ? null : (body as BodyInit), { status, headers: sent });
      }),
      "production",
    );
    type Handler = (request: Request, environment: unknown) => Promise<Response>;
    const innermost: Handler = (request) => handler(request, { decision: getRateLimit(request) });
    const limits = route.rateLimits.map((options) => rateLimit(options as FetchRateLimitOptions));
    const idempotents = route.idempotency ? [idempotent(route.idempotency)] : [];
    const ordered = inOrder(route, idempotents, limits as unknown as typeof idempotents);
    return { route, limited: ordered.reduceRight<Handler>((next, wrap) => wrap(next) as Handler, innermost) };
  });
  return (request: Request, environment: unknown): Promise<Response> | Response => {
    const { pathname } = new URL(request.url);
    const found = handlers.find(({ route: { path } }) => pathname === path || pathname.startsWith(`${path}/`));
    return found?.limited(request, environment) ?? new Response("not found", { status: 404 });
  };
}

middlewareSuite(
  "Remix 2, memory",
  {
    start: () => serveFetch(remixApp(guardedRoutes(fetchKit)) as never),
    without: { ...FETCH_WITHOUT, ...NODE_REQUEST_WITHOUT, ...ABORTED },
  },
  { describe, it },
);

describe("Remix 2", () => {
  it("does not run a loader for a request that is rejected (seed 001)", async () => {
    let loaded = 0;
    const remaining: unknown[] = [];
    const limited = createServer(
      buildOf(async (_request, { rateLimit: decision }: { rateLimit?: ReturnType<typeof getRateLimit> }) => {
        loaded++;
        remaining.push(decision?.remaining);
        return new Response("ok");
      }),
    );
    const server = await serveFetch(limited as never);
    onTestFinished(server.close);
    const statuses = [];
    for (let i = 0; i < 5; i++) statuses.push((await fetch(server.url)).status);
    expect([statuses, loaded, remaining]).toEqual([[200, 200, 429, 429, 429], 2, [1, 0]]);
  });
});
