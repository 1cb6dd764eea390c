/** `idempotent` and `getIdempotency` of every subpath, with the arguments that the frameworks pass. */
import type { IncomingMessage, ServerResponse } from "node:http";
import express from "express";
import { fastify } from "fastify";
import { Hono } from "hono";
import * as forExpress from "sluice/express";
import * as forFastify from "sluice/fastify";
import * as forFetch from "sluice/fetch";
import * as forH3 from "sluice/h3";
import * as forHono from "sluice/hono";
import { memoryIdempotencyStore } from "sluice/idempotency";
import * as forKoa from "sluice/koa";
import * as forNetlify from "sluice/netlify";
import * as forNext from "sluice/next";
import * as forNode from "sluice/node";
import * as forReactRouter from "sluice/react-router";
import * as forSvelteKit from "sluice/sveltekit";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { listening } from "./servers.ts";

// h3 is installed in integration/ only.
vi.mock("h3", () => ({ toResponse: (value: unknown) => value }));

// biome-ignore lint/suspicious/noExplicitAny: frameworks that are not installed here
type Anything = any;

const options = () => ({ store: memoryIdempotencyStore(), scope: () => "ada" });
const headers = { "Idempotency-Key": "k1" };
const request = () => new Request("https://example.com/pay", { method: "POST", headers });
const post = (url: string) => fetch(url, { method: "POST", headers });

/** Sends a payment twice, and returns the responses. The handler responds with the result of `getIdempotency`. */
const servers: Record<string, () => Promise<Response[]>> = {
  async express() {
    const app = express();
    app.post("/", forExpress.idempotent(options()), (request, response) => {
      response.json(forExpress.getIdempotency(request));
    });
    const url = await listening(app as never);
    return [await post(url), await post(url)];
  },
  async fastify() {
    const app = fastify();
    app.post("/", { preHandler: forFastify.idempotent(options()) }, async (request) =>
      forFastify.getIdempotency(request),
    );
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    onTestFinished(() => app.close());
    return [await post(url), await post(url)];
  },
  async hono() {
    const app = new Hono();
    app.post("/pay", forHono.idempotent(options()), (c) => c.json(forHono.getIdempotency(c) as object));
    return [await app.fetch(request()), await app.fetch(request())];
  },
  async fetch() {
    const handler = forFetch.idempotent(options())((request: Request) =>
      Response.json(forFetch.getIdempotency(request)),
    );
    return [await handler(request()), await handler(request())];
  },
  async node() {
    const handler = forNode.idempotent(options())((request, response) => {
      response.setHeader("Content-Type", "application/json");
      response.end(JSON.stringify(forNode.getIdempotency(request)));
    });
    const url = await listening(handler);
    return [await post(url), await post(url)];
  },
  async koa() {
    const middleware: Anything = forKoa.idempotent(options());
    const url = await listening(async (req: IncomingMessage, res: ServerResponse) => {
      const context: Anything = {
        ...{
          req,
          res,
          originalUrl: req.url,
          headerSent: false,
          response: { get: (name: string) => res.getHeader(name) },
        },
        set: (name: string, value: string) => void res.setHeader(name, value),
        remove: (name: string) => res.removeHeader(name),
      };
      await middleware(context, async () => {
        context.set("Content-Type", "application/json");
        context.body = JSON.stringify(forKoa.getIdempotency(context));
      });
      res.statusCode = context.status ?? 200;
      res.end(context.body);
    });
    return [await post(url), await post(url)];
  },
  async h3() {
    const middleware: Anything = forH3.idempotent(options());
    const send = () => {
      const event: Anything = { req: request(), res: { headers: new Headers() } };
      return middleware(event, () => Response.json(forH3.getIdempotency(event)));
    };
    return [await send(), await send()];
  },
  async sveltekit() {
    const handle: Anything = forSvelteKit.idempotent(options());
    const send = () => {
      const event: Anything = {
        request: request(),
        url: new URL("https://example.com/pay"),
        getClientAddress: () => "::1",
      };
      // Endpoints get another event with the same request.
      const resolve = () => Response.json(forSvelteKit.getIdempotency({ request: event.request } as Anything));
      return handle({ event, resolve });
    };
    return [await send(), await send()];
  },
  async "react-router"() {
    const middleware: Anything = forReactRouter.idempotent(options());
    const send = () => {
      const context = {};
      const next = async () => Response.json(forReactRouter.getIdempotency({ context }));
      return middleware({ request: request(), params: {}, context }, next);
    };
    return [await send(), await send()];
  },
  async netlify() {
    const edgeFunction: Anything = forNetlify.idempotent(options());
    const send = () => {
      const sent = request();
      return edgeFunction(sent, { ip: "::1", next: async () => Response.json(forNetlify.getIdempotency(sent)) });
    };
    return [await send(), await send()];
  },
  async next() {
    const handler = forNext.idempotent(options())((request: Request) => Response.json(forNext.getIdempotency(request)));
    return [await handler(request()), await handler(request())];
  },
};

describe("idempotent", () => {
  it.each(Object.keys(servers))(
    "of sluice/%s runs a request once, and getIdempotency returns its state",
    async (name) => {
      const responses = (await servers[name]?.()) ?? [];
      const seen = await Promise.all(
        responses.map(async (response) => [await response.json(), response.headers.get("Idempotent-Replayed")]),
      );
      expect(seen).toEqual([
        [{ key: "k1", attempt: 1 }, null],
        [{ key: "k1", attempt: 1 }, "true"],
      ]);
    },
  );

  it.each([
    [{ digest: "NEXT_REDIRECT;replace;/orders/1?a=1;b;307;" }, 307, "/orders/1?a=1;b"],
    [{ digest: "NEXT_HTTP_ERROR_FALLBACK;404" }, 404, null],
  ])("of sluice/next replays what Next.js makes of %j", async (thrown, status, location) => {
    const handler = forNext.idempotent(options())(() => {
      throw Object.assign(new Error("thrown by Next.js"), thrown);
    });
    for (const replayed of [null, "true"]) {
      const { status: sent, headers } = await handler(request());
      expect([sent, headers.get("Location"), headers.get("Idempotent-Replayed")]).toEqual([status, location, replayed]);
    }
  });
});

describe("idempotent of the wrong subpath", () => {
  it("names the right one", async () => {
    const inExpress: Anything = forExpress.idempotent(options());
    await expect(async () => inExpress(request())).rejects.toThrow(
      'idempotent from "sluice/express" was called by a server of Request and Response. Import idempotent from "sluice/fetch" and use it as idempotent(options)(handler).',
    );
    const inHono: Anything = forHono.idempotent(options());
    await expect(async () => inHono({ raw: {} }, { raw: {} })).rejects.toThrow(
      'Import idempotent from "sluice/fastify" and use it as app.addHook("preHandler", idempotent(options)).',
    );
    const inNext: Anything = forNext.idempotent(options());
    await expect(async () => inNext(Object.assign(request(), { nextUrl: {} }))).rejects.toThrow(
      "export const POST = idempotent(options)(handler)",
    );
    const inFetch: Anything = forFetch.idempotent(options());
    await expect(async () => inFetch({ getRawInput() {} })).rejects.toThrow("which has no responses to replay");
  });
});
