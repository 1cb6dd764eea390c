/** A `rateLimit` imported from the wrong subpath throws an error that names the right one (issue 13). */
import express, { type Request as ExpressRequest, type Response as ExpressResponse, type NextFunction } from "express";
import { fastify } from "fastify";
import { Hono } from "hono";
import { SluiceError } from "sluice";
import { rateLimit as limitExpress } from "sluice/express";
import { rateLimit as limitFastify } from "sluice/fastify";
import { rateLimit as limitFetch } from "sluice/fetch";
import { rateLimit as limitH3 } from "sluice/h3";
import { rateLimit as limitHono } from "sluice/hono";
import { rateLimit as limitKoa } from "sluice/koa";
import { rateLimit as limitNetlify } from "sluice/netlify";
import { rateLimit as limitNext, limitRoute } from "sluice/next";
import { rateLimit as limitNode } from "sluice/node";
import { rateLimit as limitReactRouter } from "sluice/react-router";
import { rateLimit as limitSvelteKit } from "sluice/sveltekit";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { FRAMEWORK_CALLS } from "./framework-calls.ts";
import { listening, sendRequest, served } from "./servers.ts";

// h3 is installed in integration/ only. No test here gets as far as a response of a handler.
vi.mock("h3", () => ({ toResponse: (value: unknown) => value }));

// biome-ignore lint/suspicious/noExplicitAny: the arguments have the wrong types on purpose
type Anything = any;

const options = { policy: "9/m", key: () => "k" } as const;
const handler = () => new Response("handled");
const imports: Record<string, () => Anything> = {
  express: () => limitExpress(options),
  fastify: () => limitFastify(options),
  hono: () => limitHono(options),
  koa: () => limitKoa(options),
  h3: () => limitH3(options),
  sveltekit: () => limitSvelteKit(options),
  "react-router": () => limitReactRouter(options),
  netlify: () => limitNetlify(options),
  next: () => limitNext(options),
  fetch: () => limitFetch(options),
  node: () => limitNode(options),
};
/** Wrapped around a handler, for the subpaths that require it. */
const wrapped: Record<string, () => Anything> = {
  fetch: () => limitFetch(options)(handler),
  node: () => limitNode(options)((_request, response) => void response.end("handled")),
};

/** Subpaths that a framework may call as its own: both pass a Request and expect a Response. */
const COMPATIBLE: Record<string, readonly string[]> = {
  next: ["next", "netlify", "fetch"],
  fetch: ["netlify", "next"],
};

/** Mounts a function in each framework, sends one request, and returns the error that the framework received. */
const callers: Record<string, (middleware: Anything) => Promise<unknown>> = {
  async express(middleware) {
    const errors: unknown[] = [];
    const app = express();
    app.use(middleware);
    app.use((error: unknown, _request: ExpressRequest, response: ExpressResponse, _next: NextFunction) => {
      errors.push(error);
      response.status(500).send();
    });
    expect((await sendRequest(await listening(app as never))).status).toBe(500);
    return errors[0];
  },
  async fastify(middleware) {
    const errors: unknown[] = [];
    const app = fastify();
    app.addHook("onRequest", middleware);
    app.get("/", async () => "handled");
    app.setErrorHandler((error, _request, reply) => {
      errors.push(error);
      reply.code(500).send();
    });
    onTestFinished(() => app.close());
    expect((await sendRequest(await app.listen({ port: 0, host: "127.0.0.1" }))).status).toBe(500);
    return errors[0];
  },
  async hono(middleware) {
    const errors: unknown[] = [];
    const app = new Hono();
    app.use(middleware);
    app.get("/", handler);
    app.onError((error, context) => {
      errors.push(error);
      return context.text("", 500);
    });
    expect((await sendRequest(await served(app.fetch))).status).toBe(500);
    return errors[0];
  },
  async node(middleware) {
    const url = await listening(middleware);
    // Several requests, all of them with a response: an error thrown here would end the process.
    for (let i = 0; i < 3; i++) expect((await sendRequest(url)).status).toBe(500);
    return undefined;
  },
  async fetch(middleware) {
    const errors: unknown[] = [];
    const url = await served(async (...args) => {
      try {
        return await middleware(...args);
      } catch (error) {
        errors.push(error);
        return new Response(null, { status: 500 });
      }
    });
    expect((await sendRequest(url)).status).toBe(500);
    return errors[0];
  },
  ...FRAMEWORK_CALLS,
};

/** The process warnings of this file. Each is emitted once per process, so they are collected over all tests. */
const warnings: string[] = [];
const { emitWarning } = process;
beforeAll(() => {
  process.emitWarning = ((text: string, { code }: { code?: string } = {}) => {
    if (code === "SLUICE_MISUSE") warnings.push(text);
  }) as typeof emitWarning;
});
afterAll(() => {
  process.emitWarning = emitWarning;
});

/** The message of an error, or of the one warning for node:http, which has no error handler. */
function messageOf(error: unknown, imported: string, caller: string): string {
  if (caller === "node") {
    const own = warnings.filter((text) => text.startsWith(`rateLimit from "sluice/${imported}" was called`));
    expect(own).toHaveLength(1);
    return own[0] as string;
  }
  expect(error).toBeInstanceOf(SluiceError);
  return (error as SluiceError).message;
}

function expectNamed(error: unknown, imported: string, caller: string): void {
  const message = messageOf(error, imported, caller);
  if (caller !== imported) {
    expect(message).toMatch(new RegExp(`^rateLimit from "sluice/${imported}" was called by `));
    expect(message).toContain(`Import rateLimit from "sluice/${caller}" and use it as `);
  } else {
    expect(message).toMatch(
      new RegExp(`^rateLimit from "sluice/${imported}" was called without a handler. Use it as `),
    );
    expect(message).toContain("rateLimit(options)(handler)");
  }
}

describe.each(Object.keys(imports))("sluice/%s", (imported) => {
  const wrong = Object.keys(callers).filter((caller) =>
    imported in wrapped ? true : caller !== imported && !COMPATIBLE[imported]?.includes(caller),
  );

  it.each(wrong)("names the right import if it is mounted in %s", async (caller) => {
    expectNamed(await callers[caller]?.(imports[imported]?.()), imported, caller);
  });

  // A handler wrapped by sluice/node is a valid Express middleware that responds itself.
  const wrongWrapped = Object.keys(callers).filter(
    (caller) =>
      imported in wrapped &&
      caller !== imported &&
      !(imported === "node" && caller === "express") &&
      !COMPATIBLE[imported]?.includes(caller),
  );
  it.each(wrongWrapped)("names the right import if it wraps a handler and is mounted in %s", async (caller) => {
    expectNamed(await callers[caller]?.(wrapped[imported]?.()), imported, caller);
  });

  it.runIf(!(imported in wrapped))("names the imports that wrap a handler if it is called with one", async () => {
    const call = async () => imports[imported]?.()(handler);
    await expect(call()).rejects.toThrow(`rateLimit from "sluice/${imported}" can't wrap a handler. Use it as `);
    await expect(call()).rejects.toThrow('import rateLimit from "sluice/node" or "sluice/fetch".');
  });

  it("names the hook if it is registered as a Fastify plugin", async () => {
    const app = fastify();
    onTestFinished(() => app.close());
    app.register(imports[imported]?.());
    const error = await app.ready().then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(error).toBeInstanceOf(SluiceError);
    expect((error as Error).message).toContain('app.addHook("onRequest", rateLimit(options)).');
  });

  it.each([[[]], [[undefined]], [[{}, {}]], [[{ req: {}, res: {} }, () => {}]]])(
    "throws if it is called with %j",
    async (args) => {
      const call = async () => imports[imported]?.()(...args);
      await expect(call()).rejects.toThrow(
        `rateLimit from "sluice/${imported}" was called with unknown arguments. Import rateLimit from the subpath of your framework`,
      );
    },
  );
});

describe("limitRoute of sluice/next", () => {
  it("throws if it wraps something else than a handler", () => {
    const limit = limitRoute(options) as Anything;
    expect(() => limit({ nextUrl: {}, headers: new Headers() })).toThrow(
      'limitRoute from "sluice/next" was called with the wrong arguments. Use it as export const POST = limitRoute(options)(handler).',
    );
  });
});
