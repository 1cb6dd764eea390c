/** `sluice/koa` beside other middleware of an app. */
import type { RequestListener } from "node:http";
import type { Middleware } from "koa";
import { rateLimit } from "sluice/koa";
import { toNodeHandler } from "sluice/node";
import { createObserver, dashboard } from "sluice/observe";
import { loadRules } from "sluice/rules";
import { describe, expect, it, onTestFinished } from "vitest";
import { listen } from "../../test/middleware/mount.ts";
import { versions } from "./app.ts";

for (const [name, KoaApp] of versions) {
  const started = async (...middleware: Middleware[]): Promise<string> => {
    const app = new KoaApp();
    for (const one of middleware) app.use(one);
    app.use((context) => void (context.body = "ok"));
    const { url, close } = await listen(app.callback() as RequestListener);
    onTestFinished(close);
    return url;
  };

  describe(name, () => {
    it("serves the dashboard as the guide says, and names that call if it is mounted without", async () => {
      const board = dashboard(createObserver(), { authorize: () => true });
      onTestFinished(() => board.dispose());
      const page = toNodeHandler(board);
      const mount: Middleware = (context, next) => {
        if (!/^\/_sluice(\/|$)/.test(context.path)) return next();
        context.respond = false;
        page(context.req, context.res);
      };
      const url = await started(mount);
      const opened = await fetch(new URL("/_sluice", url));
      expect([opened.status, opened.headers.get("Content-Type")]).toEqual([200, expect.stringContaining("text/html")]);
      expect(await (await fetch(url)).text()).toBe("ok");

      const errors: string[] = [];
      const caught: Middleware = (_context, next) => next().catch((error: Error) => void errors.push(error.message));
      await fetch(await started(caught, board as never));
      expect(errors).toEqual([expect.stringContaining("sets context.respond = false and calls page(context.req,")]);
    });

    it("matches rules against the whole path below a mounted app", async () => {
      const rules = loadRules(
        { rules: [{ name: "login", match: "/api/login", limits: { ip: "1/d fixed" } }], fallback: { unlimited: true } },
        { facts: [] },
      );
      // As koa-mount does it.
      const mount: Middleware = (context, next) => {
        context.path = context.path.replace("/api", "");
        return next();
      };
      const url = new URL("/api/login", await started(mount, rateLimit({ rules })));
      expect((await fetch(url)).status).toBe(200);
      expect((await fetch(url)).status).toBe(429);
    });

    it("sends the body that an async onLimited has set", async () => {
      const url = await started(
        rateLimit({
          policy: "1/d",
          async onLimited({ args: [context] }) {
            await Promise.resolve();
            context.body = "slow down";
          },
        }),
      );
      await fetch(url);
      const response = await fetch(url);
      expect([response.status, await response.text()]).toEqual([429, "slow down"]);
    });

    it("sends the problem document if onLimited returns nothing", async () => {
      for (const onLimited of [() => {}, async () => {}]) {
        const url = await started(rateLimit({ policy: "1/d", onLimited }));
        await fetch(url);
        const response = await fetch(url);
        expect([response.status, await response.json()]).toMatchObject([429, { title: "Quota Exceeded" }]);
      }
    });

    it("returns to the middleware around it if the client disconnects during a delay", async () => {
      const client = new AbortController();
      let returned = () => {};
      const hasReturned = new Promise<void>((resolve) => (returned = resolve));
      let count = 0;
      const url = await started(
        async (_context, next) => {
          const isDelayed = ++count === 2;
          const passed = next();
          if (isDelayed) client.abort();
          await passed;
          if (isDelayed) returned();
        },
        rateLimit({ policy: { algorithm: "leaky-bucket", capacity: 2, leaksPerSecond: "1/m" }, maxDelayMs: 3_600_000 }),
      );
      await fetch(url);
      await expect(fetch(url, { signal: client.signal })).rejects.toThrow();
      await hasReturned;
    });
  });
}
