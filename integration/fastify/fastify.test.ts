/** `sluice/fastify` in real apps of Fastify 5. */
import { Readable } from "node:stream";
import { type FastifyInstance, type FastifyServerOptions, fastify } from "fastify";
import { type FastifyRateLimitOptions, idempotent, rateLimit } from "sluice/fastify";
import { describe, expect, it, onTestFinished } from "vitest";
import { sendRequest } from "../send-request.ts";
import { serverSuite } from "../server-suite.ts";
import { solving } from "../solving.ts";
import { expectNoBypass } from "../spellings.ts";
import { newRequest, storing, textOf } from "../stored-responses.ts";
import { kit, startApp, started } from "./app.ts";

for (const place of ["scope", "route"] as const) {
  serverSuite(`Fastify 5, hooks of a ${place}`, { kit, start: (routes) => startApp(place, routes) });
}
for (const place of ["plugin", "config"] as const) {
  const name = place === "plugin" ? "plugin" : "plugin and config of routes";
  serverSuite(`Fastify 5, ${name}`, { kit, start: (routes) => startApp(place, routes) });
}

const limited = (capacity: number, more: FastifyRateLimitOptions = {}) =>
  rateLimit({ policy: { capacity, tokensPerSecond: `${capacity}/d`, name: "api" }, ...more });

async function served(app: FastifyInstance): Promise<string> {
  const { url, close } = await started(app);
  onTestFinished(close);
  return url;
}

const statuses = async (url: string, ...paths: string[]) => {
  const found: number[] = [];
  for (const path of paths) found.push((await sendRequest(url, path)).status);
  return found;
};

describe("Fastify 5, beyond the suite", () => {
  it.each<[string, FastifyServerOptions]>([
    ["with default options", {}],
    [
      "that is lenient",
      {
        routerOptions: {
          caseSensitive: false,
          ignoreTrailingSlash: true,
          ignoreDuplicateSlashes: true,
        },
        useSemicolonDelimiter: true,
      },
    ],
  ])("limits every spelling of a path with a router %s", async (name, options) => {
    const accepted = await expectNoBypass(async (capacity) => {
      let reached = 0;
      const app = fastify(options);
      app.register(
        async (scope) => {
          scope.addHook("onRequest", limited(capacity));
          scope.get("/item", async () => `${++reached}`);
        },
        { prefix: "/api" },
      );
      return { ...(await started(app)), reached: () => reached };
    });
    expect(accepted).toContain("/api/item");
    expect(accepted.includes("/API/item")).toBe(name === "that is lenient");
  });

  it("limits the routes of its scope only, a single route, and unmatched paths", async () => {
    const app = fastify();
    app.register(async (scope) => {
      scope.addHook("onRequest", limited(1));
      scope.get("/scope/a", async () => "ok");
      scope.register(async (inner) => void inner.get("/scope/b", async () => "ok"));
    });
    app.get("/route", { onRequest: limited(1) }, async () => "ok");
    app.get("/late", { preHandler: [limited(1)] }, async () => "ok");
    app.get("/free", async () => "ok");
    app.register(
      async (scope) => {
        scope.addHook("onRequest", limited(1));
        scope.setNotFoundHandler((_request, reply) => void reply.code(404).send("none"));
      },
      { prefix: "/nothing" },
    );
    const url = await served(app);
    expect(await statuses(url, "/scope/a", "/scope/b", "/scope/a")).toEqual([200, 429, 429]);
    expect(await statuses(url, "/route", "/route", "/late", "/late")).toEqual([200, 429, 200, 429]);
    expect(await statuses(url, "/nothing/here", "/nothing/there")).toEqual([404, 429]);
    expect(await statuses(url, "/free", "/free", "/free")).toEqual([200, 200, 200]);
  });

  it("passes the error of key to setErrorHandler unchanged", async () => {
    const thrown = new Error("on purpose");
    const fails = () => {
      throw thrown;
    };
    const seen: unknown[] = [];
    const app = fastify();
    app.setErrorHandler((error, _request, reply) => {
      seen.push(error);
      return reply.code(418).send("the app's own");
    });
    app.get("/now", { onRequest: limited(1, { key: fails }) }, async () => "ok");
    app.get("/later", { onRequest: limited(1, { key: async () => fails() }) }, async () => "ok");
    const url = await served(app);
    for (const path of ["/now", "/later"]) {
      const { status, body, header } = await sendRequest(url, path);
      expect([status, body, header("RateLimit")]).toEqual([418, "the app's own", undefined]);
    }
    expect(seen[0]).toBe(thrown);
    expect(seen[1]).toBe(thrown);
  });

  it("runs the onSend and onResponse hooks of the app on a rejection, and not its handler", async () => {
    const hooks: string[] = [];
    let reached = 0;
    const app = fastify();
    app.addHook("onSend", async (_request, reply, payload) => {
      hooks.push(`onSend ${reply.statusCode} ${JSON.parse(payload as string).title}`);
      reply.header("X-App", "yes");
    });
    app.addHook("onResponse", async (_request, reply) => void hooks.push(`onResponse ${reply.statusCode}`));
    app.addHook("preHandler", async () => void hooks.push("preHandler"));
    app.get("/", { onRequest: limited(1) }, async () => ({ title: `handled ${++reached}` }));
    const url = await served(app);
    await sendRequest(url, "/");
    const denied = await sendRequest(url, "/");
    expect([denied.status, denied.header("X-App"), reached]).toEqual([429, "yes", 1]);
    await expect.poll(() => hooks).toHaveLength(5);
    expect(hooks).toEqual([
      "preHandler",
      "onSend 200 handled 1",
      "onResponse 200",
      "onSend 429 Quota Exceeded",
      "onResponse 429",
    ]);
  });

  it("works with inject, without a socket", async () => {
    const app = fastify();
    app.addHook("onRequest", limited(1));
    app.get("/", async () => "ok");
    onTestFinished(() => app.close());
    const [first, second] = [await app.inject("/"), await app.inject("/")];
    expect([first.statusCode, first.headers["ratelimit-policy"]]).toEqual([200, '"api";q=1;w=86400']);
    expect([second.statusCode, second.json().title]).toEqual([429, "Quota Exceeded"]);
    const elsewhere = await app.inject({ url: "/", remoteAddress: "203.0.113.1" });
    expect(elsewhere.statusCode).toBe(200);
  });

  it("refunds requests of inject", async () => {
    const app = fastify();
    app.addHook("onRequest", limited(1, { refundIf: "succeeded" }));
    app.get("/", async () => "ok");
    onTestFinished(() => app.close());
    const statuses: number[] = [];
    for (let i = 0; i < 3; i++) statuses.push((await app.inject("/")).statusCode);
    expect(statuses).toEqual([200, 200, 200]);
  });

  it.each([true, "127.0.0.1"])("ignores the option `trustProxy: %s`", async (trustProxy) => {
    const app = fastify({ trustProxy });
    app.get("/", { onRequest: limited(2) }, async ({ ip }) => ip);
    const url = await served(app);
    const from = (address: string) => sendRequest(url, "/", { headers: { "X-Forwarded-For": address } });
    // Fastify trusts the header, so a limiter based on request.ip would never reject.
    expect((await from("203.0.113.1")).body).toBe("203.0.113.1");
    expect((await from("203.0.113.2")).body).toBe("203.0.113.2");
    expect((await from("203.0.113.3")).status).toBe(429);
  });

  it("adds its fields to every kind of response", async () => {
    const app = fastify();
    app.addHook("onRequest", limited(100));
    app.get("/stream", async (_request, reply) => reply.send(Readable.from(["a", "b"])));
    app.get("/empty", async (_request, reply) => reply.code(204).send());
    app.get("/redirect", async (_request, reply) => reply.redirect("/stream"));
    app.get("/raw", (_request, reply) => {
      reply.hijack();
      reply.raw.writeHead(200, { "X-Own": "1" }).end("raw");
    });
    app.get("/response", async () => new Response("web", { headers: { "X-Own": "1" } }));
    app.get("/error", async () => {
      throw new Error("on purpose");
    });
    const url = await served(app);
    for (const path of ["/stream", "/empty", "/redirect", "/raw", "/response", "/error", "/none"]) {
      expect((await sendRequest(url, path)).header("RateLimit"), path).toMatch(/^"api";r=\d+;t=\d+$/);
    }
  });

  it("captures every kind of response", async () => {
    const { stored, options } = storing();
    const app = fastify({ logger: false });
    app.addHook("preHandler", idempotent(options));
    app.post("/object", async () => ({ a: 1 }));
    app.post("/text", async (_request, reply) => reply.code(201).send("text"));
    app.post("/buffer", async (_request, reply) => reply.send(Buffer.from("bytes")));
    app.post("/stream", async (_request, reply) => reply.send(Readable.from(["a", "b"])));
    app.post("/empty", async (_request, reply) => reply.code(204).send());
    app.post("/redirect", async (_request, reply) => reply.redirect("/text"));
    app.post("/raw", (_request, reply) => {
      reply.hijack();
      reply.raw.writeHead(200, { "Content-Type": "text/own" }).end("raw");
    });
    app.post("/response", async () => new Response("web", { headers: { "Content-Type": "text/own" } }));
    app.post("/error", async () => {
      throw new Error("on purpose");
    });
    const url = await served(app);
    const paths = ["/object", "/text", "/buffer", "/stream", "/empty", "/redirect", "/raw", "/response", "/error"];
    for (const path of paths) {
      const { status, body, header } = await sendRequest(url, path, newRequest());
      const last = stored.at(-1);
      expect([last?.status, last?.headers["content-type"]], path).toEqual([status, header("Content-Type")]);
      expect(textOf(last), path).toBe(body);
    }
    expect(stored).toHaveLength(paths.length);
  });

  it("stores no body of a stream that fails", async () => {
    const { stored, options } = storing();
    const app = fastify({ logger: false });
    app.addHook("preHandler", idempotent(options));
    app.post("/", async (_request, reply) => {
      const failing = async function* () {
        yield "a";
        throw new Error("on purpose");
      };
      return reply.send(Readable.from(failing()));
    });
    const url = await served(app);
    await expect(sendRequest(url, "/", newRequest())).rejects.toThrow();
    await expect.poll(() => stored).toMatchObject([{ status: 200, body: null }]);
  });

  it("reads a solution that was parsed, at the path after rewriteUrl, as the router does", async () => {
    const app = fastify({ rewriteUrl: () => "/rewritten" });
    app.post("/rewritten", { preHandler: rateLimit(solving("/rewritten")) }, async () => "ok");
    const url = await served(app);
    const headers = { "Content-Type": "application/json" };
    const init = { method: "POST", headers, body: '{"token":"solved"}' };
    expect((await fetch(new URL("/api/a?b=1", url), init)).status).toBe(204);
  });

  it("limits HTTP/2 servers", async () => {
    const app = fastify({ http2: true });
    // Fastify has separate types for HTTP/2 servers; the members that the hook uses are the same.
    app.addHook("onRequest", limited(1) as never);
    app.get("/", async () => "ok");
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    const { connect } = await import("node:http2");
    const session = connect(url);
    onTestFinished(async () => {
      await new Promise<void>((resolve) => session.close(resolve));
      await app.close();
    });
    const heads: Record<string, unknown>[] = [];
    for (let i = 0; i < 2; i++) {
      heads.push(
        await new Promise((resolve, reject) => {
          session.request({ ":path": "/" }).once("response", resolve).once("error", reject).resume();
        }),
      );
    }
    expect(heads).toMatchObject([
      { ":status": 200, "ratelimit-policy": '"api";q=1;w=86400' },
      { ":status": 429, "ratelimit-policy": '"api";q=1;w=86400' },
    ]);
  });
});
