/** Serves one router with each HTTP adapter of tRPC, on a free loopback port. */
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { createTRPCClient, httpBatchLink, httpBatchStreamLink, httpLink, type TRPCClient } from "@trpc/client";
import { type AnyTRPCRouter, initTRPC } from "@trpc/server";
import { createExpressMiddleware } from "@trpc/server/adapters/express";
import { fetchRequestHandler } from "@trpc/server/adapters/fetch";
import { createHTTPHandler } from "@trpc/server/adapters/standalone";
import express from "express";
import { rateLimitErrorFormatter } from "sluice/trpc";
import { onTestFinished } from "vitest";
import { listen } from "../../test/middleware/mount.ts";

/** The context of all adapters: Node's have `res`, that of fetch has `resHeaders`. */
export interface Context {
  readonly req: IncomingMessage | Request;
  readonly res?: ServerResponse | undefined;
  readonly resHeaders?: Headers | undefined;
  readonly user: string;
}

export const t = initTRPC.context<Context>().create({
  errorFormatter: rateLimitErrorFormatter,
  sse: { ping: { enabled: false } },
});

const userOf = (req: IncomingMessage | Request): string => {
  const { headers } = req;
  return (
    (headers instanceof Headers ? headers.get("x-user") : (headers["x-user"] as string | undefined)) ?? "anonymous"
  );
};

/** Creates the listener of each adapter. */
export const adapters: Readonly<Record<string, (router: AnyTRPCRouter) => RequestListener>> = {
  standalone: (router) =>
    createHTTPHandler({
      router,
      createContext: ({ req, res }) => ({ req, res, user: userOf(req) }),
    }) as RequestListener,
  Express(router) {
    const createContext = ({ req, res }: { req: IncomingMessage; res: ServerResponse }) => ({
      req,
      res,
      user: userOf(req),
    });
    return express().use("/", createExpressMiddleware({ router, createContext })) as RequestListener;
  },
  fetch(router) {
    return async (request, response) => {
      const body = request.method === "GET" ? null : (Readable.toWeb(request) as ReadableStream);
      const abort = new AbortController();
      response.once("close", () => abort.abort());
      const answer = await fetchRequestHandler({
        endpoint: "",
        router,
        req: new Request(`http://localhost${request.url}`, {
          method: request.method as string,
          headers: request.headers as Record<string, string>,
          body,
          signal: abort.signal,
          duplex: "half",
        } as RequestInit),
        createContext: ({ req, resHeaders }) => ({ req, resHeaders, user: userOf(req) }),
      });
      response.writeHead(answer.status, Object.fromEntries(answer.headers));
      if (answer.body) Readable.fromWeb(answer.body as never).pipe(response);
      else response.end();
    };
  },
};

/** A client of a served router, with the heads of the responses that it received. */
export interface Served<R extends AnyTRPCRouter> {
  readonly url: string;
  readonly one: TRPCClient<R>;
  readonly batch: TRPCClient<R>;
  readonly stream: TRPCClient<R>;
  readonly heads: Response[];
}

/** Serves a router until the end of the test. */
export async function serve<R extends AnyTRPCRouter>(adapter: string, router: R, user = "ada"): Promise<Served<R>> {
  const listener = adapters[adapter]?.(router);
  if (!listener) throw new Error(`no adapter ${adapter}`);
  const { url, close } = await listen(listener);
  onTestFinished(close);
  const heads: Response[] = [];
  const options = {
    url,
    headers: { "x-user": user },
    async fetch(input: RequestInfo | URL | string, init?: RequestInit) {
      const response = await fetch(input, init);
      heads.push(response.clone());
      return response;
    },
  } as never;
  const client = (link: typeof httpBatchLink) => createTRPCClient<R>({ links: [link(options)] });
  return {
    url,
    heads,
    one: client(httpLink as never),
    batch: client(httpBatchLink),
    stream: client(httpBatchStreamLink as never),
  };
}
