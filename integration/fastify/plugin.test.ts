/** `rateLimitPlugin` in real apps of Fastify 5: scopes, routes with options of their own, and mistakes. */
import { type FastifyInstance, fastify } from "fastify";
import { SluiceError } from "sluice";
import { type FastifyRateLimitPluginOptions, rateLimitPlugin } from "sluice/fastify";
import { describe, expect, it, onTestFinished } from "vitest";
import { sendRequest } from "../send-request.ts";
import { started } from "./app.ts";

const slow = (capacity: number, name: string) => ({ capacity, tokensPerSecond: `${capacity}/d` as const, name });

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

/** An app with the plugin and a few routes. */
function appWith(options: FastifyRateLimitPluginOptions): FastifyInstance {
  const app = fastify();
  app.register(rateLimitPlugin, options);
  app.get("/a", async () => "a");
  app.get("/b", async () => "b");
  app.get("/own", { config: { rateLimit: { policy: slow(1, "own") } } }, async () => "own");
  app.get("/free", { config: { rateLimit: false } }, async () => "free");
  return app;
}

describe("Fastify 5, plugin", () => {
  it("limits all routes and what is not found together, each route with options by its own", async () => {
    const url = await served(appWith({ policy: slow(3, "app") }));
    expect(await statuses(url, "/own", "/own", "/free", "/free")).toEqual([200, 429, 200, 200]);
    // Also routes that were added before the plugin was loaded.
    expect(await statuses(url, "/a", "/b", "/nothing", "/a", "/nothing")).toEqual([200, 200, 404, 429, 429]);
  });

  it("charges the buckets of the app with the cost of a route", async () => {
    const app = appWith({ policy: slow(3, "app") });
    app.get("/costly", { config: { rateLimit: { cost: 2 } } }, async () => "costly");
    const url = await served(app);
    expect((await sendRequest(url, "/costly")).header("RateLimit")).toMatch(/^"app";r=1;/);
    expect(await statuses(url, "/costly", "/a", "/a")).toEqual([429, 200, 429]);
  });

  it("takes other options of a route from the plugin", async () => {
    const url = await served(appWith({ policy: "1/s", headers: "draft-6", key: () => "all" }));
    const { header } = await sendRequest(url, "/own");
    expect([header("RateLimit-Limit"), header("RateLimit")]).toEqual(["1", undefined]);
  });

  it("limits only routes with options if global is false", async () => {
    const url = await served(appWith({ global: false }));
    expect(await statuses(url, "/a", "/a", "/nothing", "/own", "/own")).toEqual([200, 200, 404, 200, 429]);
  });

  it("limits a route with rateLimit: true by the limits of the plugin if global is false", async () => {
    const app = appWith({ policy: slow(1, "app"), global: false });
    app.get("/true", { config: { rateLimit: true } }, async () => "true");
    expect(await statuses(await served(app), "/a", "/a", "/true", "/true")).toEqual([200, 200, 200, 429]);
  });

  it("throws for rateLimit: true if there are no limits", async () => {
    const app = fastify();
    app.register(rateLimitPlugin, { global: false });
    app.register(async (scope) => void scope.get("/true", { config: { rateLimit: true } }, async () => "true"));
    await expect(app.ready()).rejects.toThrow("requires exactly one of policy");
  });

  it("belongs to the scope that registers it", async () => {
    const app = fastify();
    for (const prefix of ["/one", "/two"]) {
      app.register(
        async (scope) => {
          scope.register(rateLimitPlugin, { policy: slow(2, "scope") });
          scope.get("/a", async () => "a");
          scope.register(async (inner) => void inner.get("/b", async () => "b"));
        },
        { prefix },
      );
    }
    app.get("/free", async () => "free");
    const url = await served(app);
    expect(await statuses(url, "/one/a", "/one/b", "/one/a")).toEqual([200, 200, 429]);
    expect(await statuses(url, "/two/a", "/two/b", "/two/b")).toEqual([200, 200, 429]);
    expect(await statuses(url, "/free", "/free", "/free")).toEqual([200, 200, 200]);
  });

  it("adds hooks to routes with app.sluice, which count in addition", async () => {
    const app = fastify();
    await app.register(rateLimitPlugin, { policy: slow(9, "app"), key: () => "all" });
    app.get("/added", { preHandler: app.sluice({ policy: slow(1, "added") }) }, async () => "added");
    app.get(
      "/twice",
      { config: { rateLimit: false }, preHandler: [app.sluice(), app.sluice({ cost: 3 })] },
      async () => "",
    );
    const url = await served(app);
    const first = await sendRequest(url, "/added");
    expect(first.header("RateLimit-Policy")).toBe('"added";q=1;w=86400, "app";q=9;w=86400');
    expect((await sendRequest(url, "/twice")).header("RateLimit")).toMatch(/"app";r=4;/);
    expect(await statuses(url, "/added")).toEqual([429]);
  });

  it("limits after the body was parsed with hook: preHandler", async () => {
    const app = fastify();
    const key = (request: { body: unknown }) => (request.body as { name: string } | undefined)?.name ?? "none";
    app.register(rateLimitPlugin, { policy: slow(1, "login"), hook: "preHandler", key });
    app.post("/login", async () => "ok");
    const url = await served(app);
    const login = async (name: string) => {
      const headers = { "Content-Type": "application/json" };
      return (await fetch(new URL("/login", url), { method: "POST", headers, body: JSON.stringify({ name }) })).status;
    };
    expect([await login("ada"), await login("ada"), await login("eve")]).toEqual([200, 429, 200]);
  });

  it("has the metadata of a plugin", async () => {
    const app = appWith({ policy: "1/s" });
    await app.ready();
    onTestFinished(() => app.close());
    expect(app.hasPlugin("sluice")).toBe(true);
    expect(app.printPlugins()).toContain("sluice");
  });

  it("fails if it is registered twice, also in a scope below", async () => {
    const twice = fastify();
    twice.register(rateLimitPlugin, { policy: "1/s" });
    twice.register(rateLimitPlugin, { policy: "2/s" });
    await expect(twice.ready()).rejects.toThrow("rateLimitPlugin is already registered in this scope");
    const below = fastify();
    below.register(rateLimitPlugin, { policy: "1/s" });
    below.register(async (scope) => void scope.register(rateLimitPlugin, { policy: "2/s" }));
    await expect(below.ready()).rejects.toThrow("or one around it");
  });

  it("fails at the start with wrong options, of the plugin and of a route", async () => {
    const broken = (options: unknown) => {
      const app = fastify();
      app.register(rateLimitPlugin, options as FastifyRateLimitPluginOptions);
      return app.ready();
    };
    await expect(broken({})).rejects.toThrow("requires exactly one of policy");
    await expect(broken({ max: 5 })).rejects.toThrow("Use policy instead");
    await expect(broken({ policy: "1/s", global: "yes" })).rejects.toThrow("global must be a boolean");
    await expect(broken({ policy: "1/s", hook: "onSend" })).rejects.toThrow(
      "hook must be onRequest, preValidation, preHandler",
    );
    const app = fastify();
    await app.register(rateLimitPlugin, { policy: "1/s" });
    for (const [rateLimit, message] of [
      [{ max: 5 }, "Use policy instead"],
      [{ policy: "fast" }, "policy"],
      ["5/m", "rateLimit must be options, or false for no limit"],
    ]) {
      expect(() => app.get("/wrong", { config: { rateLimit: rateLimit as never } }, async () => "")).toThrow(
        SluiceError,
      );
      expect(() => app.get("/wrong", { config: { rateLimit: rateLimit as never } }, async () => "")).toThrow(
        message as string,
      );
    }
  });
});
