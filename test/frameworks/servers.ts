/** One limited route on every framework, in this process, to observe both the app and the client. */
import type { RequestListener } from "node:http";
import { connect, createServer as createHttp2 } from "node:http2";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import express, { type Request as ExpressRequest, type Response as ExpressResponse, type NextFunction } from "express";
import { fastify } from "fastify";
import { Hono } from "hono";
import { rateLimit as limitExpress } from "sluice/express";
import { rateLimit as limitFastify } from "sluice/fastify";
import { rateLimit as limitFetch } from "sluice/fetch";
import { rateLimit as limitHono } from "sluice/hono";
import { rateLimit as limitNode } from "sluice/node";
import type { RouteOptions } from "sluice/testing";
import { onTestFinished } from "vitest";
import { listen } from "../middleware/mount.ts";

/** The limiter of an app, and how the app behaves around it. */
export interface App {
  options: RouteOptions;
  /** Responds after the limiter was called, as a timeout of the app does. */
  timeout?(respond: (status: number, text: string) => void): void;
}

/** A running app. */
export interface Running {
  /** The URL that it listens on. */
  readonly url: string;
  /** How often the handler was called. */
  readonly handled: () => number;
  /** Errors that the framework's error handler was called with. */
  readonly errors: unknown[];
}

type Start = (app: App, errors: unknown[], handled: () => void) => Promise<string>;

const starts = {
  async node({ options, timeout }, _errors, handled) {
    const limited = limitNode(options)((_request, response) => {
      handled();
      response.writeHead(200).end("handled");
    });
    return listening((request, response) => {
      limited(request, response);
      timeout?.((status, text) => void response.writeHead(status).end(text));
    });
  },

  async http2({ options, timeout }, _errors, handled) {
    const limited = limitNode(options)((_request, response) => {
      handled();
      response.writeHead(200).end("handled");
    });
    const server = createHttp2((request, response) => {
      limited(request as never, response as never);
      timeout?.((status, text) => void response.writeHead(status).end(text));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const session = connect(`http://127.0.0.1:${port}`);
    onTestFinished(async () => {
      await new Promise<void>((resolve) => session.close(resolve));
      await new Promise<void>((resolve) => void server.close(() => resolve()));
    });
    // `fetch` speaks HTTP/1.1.
    return listening((request, response) => {
      const stream = session.request({ ":method": request.method, ":path": request.url });
      stream.once("response", ({ ":status": status = 502 }) => {
        response.writeHead(status);
        stream.pipe(response);
      });
      stream.on("error", () => response.destroy());
    });
  },

  async express({ options, timeout }, errors, handled) {
    const app = express();
    app.use((_request, response, next) => {
      next();
      timeout?.((status, text) => void response.status(status).send(text));
    });
    app.use(limitExpress(options));
    app.use((_request, response) => {
      handled();
      response.send("handled");
    });
    app.use((error: unknown, _request: ExpressRequest, response: ExpressResponse, _next: NextFunction) => {
      errors.push(error);
      response.status(500).send("the app's own");
    });
    return listening(app as RequestListener);
  },

  async fastify({ options, timeout }, errors, handled) {
    const app = fastify();
    app.addHook("onRequest", (_request, reply, done) => {
      done();
      timeout?.((status, text) => void reply.code(status).send(text));
    });
    app.addHook("onRequest", limitFastify(options));
    app.get("/", async () => {
      handled();
      return "handled";
    });
    app.setErrorHandler((error, _request, reply) => {
      errors.push(error);
      reply.code(500).send("the app's own");
    });
    onTestFinished(() => app.close());
    return app.listen({ port: 0, host: "127.0.0.1" });
  },

  async hono({ options }, errors, handled) {
    const app = new Hono();
    app.use(limitHono(options));
    app.get("/", (context) => {
      handled();
      return context.text("handled");
    });
    app.onError((error, context) => {
      errors.push(error);
      return context.text("the app's own", 500);
    });
    return served(app.fetch);
  },

  fetch: async ({ options }, _errors, handled) =>
    served(
      limitFetch(options)(() => {
        handled();
        return new Response("handled");
      }),
    ),
} satisfies Record<string, Start>;

export type Framework = keyof typeof starts;

/** The names of all frameworks. */
export const frameworks = Object.keys(starts) as Framework[];

/** Frameworks whose handlers write to a response and don't return one. */
export const nodeFrameworks: readonly Framework[] = ["node", "http2", "express", "fastify"];

/** Starts an app; it is closed when the test finishes. */
export async function start(framework: Framework, app: App): Promise<Running> {
  const errors: unknown[] = [];
  let count = 0;
  const url = await starts[framework](app, errors, () => void count++);
  return { url, errors, handled: () => count };
}

/** Starts a listener of `node:http`. */
export async function listening(listener: RequestListener): Promise<string> {
  const server = await listen(listener);
  onTestFinished(server.close);
  return server.url;
}

/** Starts a handler from `Request` to `Response`. */
export function served(fetch: (request: Request, ...rest: never[]) => unknown): Promise<string> {
  return new Promise((resolve) => {
    const server = serve({ port: 0, hostname: "127.0.0.1", fetch: fetch as never }, ({ port }) =>
      resolve(`http://127.0.0.1:${port}/`),
    );
    onTestFinished(() => void server.close());
  });
}

/** Sends a request with a timeout. */
export async function sendRequest(
  url: string,
  init: RequestInit = {},
): Promise<{ status: number; text: string; type: string }> {
  const response = await fetch(url, { signal: AbortSignal.timeout(5000), ...init });
  return { status: response.status, text: await response.text(), type: response.headers.get("content-type") ?? "" };
}

/** Collects the process warnings of a test. */
export function collectWarnings(): { code: string; text: string }[] {
  const warnings: { code: string; text: string }[] = [];
  const { emitWarning } = process;
  process.emitWarning = ((text: string, options: { code?: string } = {}) => {
    if (options.code?.startsWith("SLUICE_")) warnings.push({ code: options.code, text });
  }) as typeof emitWarning;
  onTestFinished(() => {
    process.emitWarning = emitWarning;
  });
  return warnings;
}
