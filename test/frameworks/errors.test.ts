/** Errors of limiters: how each framework reports them, and that clients see no details (issue 13). */
import type { RequestListener } from "node:http";
import express from "express";
import { fastify } from "fastify";
import { Hono } from "hono";
import { createLimiter, SluiceError } from "sluice";
import { rateLimit as limitExpress } from "sluice/express";
import { rateLimit as limitFastify } from "sluice/fastify";
import { rateLimit as limitFetch } from "sluice/fetch";
import { rateLimit as limitHono } from "sluice/hono";
import { rateLimit as limitNode } from "sluice/node";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { collectWarnings, frameworks, listening, sendRequest, served, start } from "./servers.ts";

const STORED_KEY = "s1:{user:ada@example.com}b:login";

/** A limiter whose store contains a foreign value, as Redis may. */
function damagedLimiter() {
  const fail = () => Promise.reject(new SluiceError("foreign-value", "Not a bucket.", { option: STORED_KEY }));
  const store = { consistency: "exact" as const, apply: fail, reset: fail, inspect: fail, dispose: async () => {} };
  return createLimiter({ policy: { capacity: 1, tokensPerSecond: 1, name: "login" }, store, onStoreError: "throw" });
}

const options = () => ({ limiter: damagedLimiter(), key: () => "user:ada@example.com" });

/** Apps without an error handler of their own. */
const defaults: Record<string, () => Promise<string>> = {
  node: () => listening(limitNode(options())((_request, response) => void response.end("handled")) as RequestListener),
  fetch: () => served(limitFetch(options())(() => new Response("handled"))),
  async "express in production"() {
    const app = express();
    app.set("env", "production");
    app.use(limitExpress(options()));
    return listening(app as RequestListener);
  },
  async fastify() {
    const app = fastify();
    app.addHook("onRequest", limitFastify(options()));
    app.get("/", async () => "handled");
    onTestFinished(() => app.close());
    return app.listen({ port: 0, host: "127.0.0.1" });
  },
  async hono() {
    const app = new Hono();
    app.use(limitHono(options()));
    app.get("/", (context) => context.text("handled"));
    return served(app.fetch);
  },
};

it.each(Object.keys(defaults))(
  "sends no stored keys to clients with the default error handler of %s",
  async (framework) => {
    collectWarnings();
    // Express and Hono print errors.
    vi.spyOn(console, "error").mockImplementation(() => {});
    onTestFinished(() => void vi.restoreAllMocks());
    const { status, text } = await sendRequest((await defaults[framework]?.()) as string);
    expect(status).toBe(500);
    expect(text).not.toMatch(/ada|login|s1:|foreign|expected/);
  },
);

it("passes a generic error with the original as its cause to Fastify's error handler", async () => {
  const app = await start("fastify", { options: options() });
  await sendRequest(app.url);
  expect(app.errors).toMatchObject([
    {
      message: "The request could not be checked.",
      statusCode: 500,
      cause: { code: "foreign-value", option: STORED_KEY },
    },
  ]);
});

describe.each(frameworks)("%s", (framework) => {
  const isSilent = ["node", "http2", "fetch"].includes(framework);

  it("reports a request that could not be checked, with one warning if the server has no error handler", async () => {
    const warnings = collectWarnings();
    const app = await start(framework, { options: options() });
    for (let i = 0; i < 3; i++) expect((await sendRequest(app.url)).status).toBe(500);
    expect(app.handled()).toBe(0);
    expect(app.errors).toHaveLength(isSilent ? 0 : 3);
    expect(warnings).toMatchObject(
      isSilent ? [{ code: "SLUICE_REQUEST_FAILED", text: expect.stringContaining("could not be checked") }] : [],
    );
  });

  it("reports a request that could not be checked to onError only, if that is set", async () => {
    const warnings = collectWarnings();
    const errors: unknown[] = [];
    const onError = (error: unknown) => void errors.push(error);
    const app = await start(framework, { options: { ...options(), onError } });
    await sendRequest(app.url);
    expect([errors.length, warnings]).toEqual([1, []]);
  });

  it("warns once about a proxy that identity does not name", async () => {
    const warnings = collectWarnings();
    const app = await start(framework, { options: { policy: "9/m" } });
    // The HTTP/1.1 proxy in front of HTTP/2 forwards no headers.
    if (framework === "http2") return;
    for (let i = 0; i < 3; i++) await sendRequest(app.url, { headers: { "X-Forwarded-For": `203.0.113.${i}` } });
    expect(warnings).toMatchObject([
      { code: "SLUICE_UNTRUSTED_PROXY", text: expect.stringContaining('trustedProxies: ["127.0.0.1"]') },
    ]);
  });
});

describe("one middleware mounted twice", () => {
  const policy = { capacity: 9, tokensPerSecond: "9/d", name: "api" } as const;
  const twice: Record<string, () => Promise<string>> = {
    async express() {
      const limit = limitExpress({ policy });
      const app = express();
      app.use(limit);
      app.get("/", limit, (_request, response) => void response.send("ok"));
      return listening(app as RequestListener);
    },
    async fastify() {
      const limit = limitFastify({ policy });
      const app = fastify();
      app.addHook("onRequest", limit);
      app.get("/", { onRequest: limit }, async () => "ok");
      onTestFinished(() => app.close());
      return app.listen({ port: 0, host: "127.0.0.1" });
    },
    async hono() {
      const limit = limitHono({ policy });
      return served(new Hono().use(limit).get("/", limit, (context) => context.text("ok")).fetch);
    },
    async node() {
      const limit = limitNode({ policy });
      return listening(limit(limit((_request, response) => void response.end("ok"))) as RequestListener);
    },
  };

  it.each(Object.keys(twice))("causes one warning on %s", async (framework) => {
    const warnings = collectWarnings();
    const url = (await twice[framework]?.()) as string;
    for (let i = 0; i < 3; i++) expect((await sendRequest(url)).status).toBe(200);
    expect(warnings).toMatchObject([{ code: "SLUICE_MISUSE", text: expect.stringContaining("ran twice") }]);
  });

  it("counts once with sluice/fetch, and one request object may be handled several times", async () => {
    const warnings = collectWarnings();
    const limit = limitFetch({ policy, key: () => "k" });
    const handle = limit(limit(() => new Response("ok")));
    const request = new Request("https://example.com/");
    for (const left of [8, 7]) expect((await handle(request)).headers.get("RateLimit")).toContain(`r=${left}`);
    expect(warnings).toEqual([]);
  });
});

it.each([
  ["a list", (value: string) => ["constructor", value, "X-Own", "1", "X-Own", "2"]],
  ["pairs", (value: string) => [["constructor", value]]],
  ["an object", (value: string) => ({ constructor: value })],
])("sends a header named constructor that is passed to writeHead as %s", async (_what, headers) => {
  const url = await listening(
    limitNode({ policy: "9/m" })((_request, response) => {
      response.writeHead(200, headers("v") as never).end("ok");
    }) as RequestListener,
  );
  const response = await fetch(url);
  expect(response.headers.get("constructor")).toBe("v");
  expect(response.headers.get("RateLimit")).not.toBeNull();
  if (_what === "a list") expect(response.headers.get("X-Own")).toBe("1, 2");
});
