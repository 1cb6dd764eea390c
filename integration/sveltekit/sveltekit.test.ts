/** `sluice/sveltekit` in a built app of SvelteKit 3 with adapter-node. */
import { fileURLToPath } from "node:url";
import { middlewareSuite } from "sluice/testing";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { FETCH_WITHOUT, NODE_REQUEST_WITHOUT } from "../../test/middleware/mount.ts";
import { build, type Environment, installPacked, node24, startServer } from "../built-app.ts";
import { ruleSpellings } from "../rule-spellings.ts";

const here = fileURLToPath(new URL(".", import.meta.url));

beforeAll(async () => {
  installPacked(here);
  await build(node24, ["node_modules/vite/bin/vite.js", "build"], here);
});

const start = (env: Environment = {}) => startServer(node24, ["build/index.js"], here, env);

middlewareSuite(
  "SvelteKit 3, memory",
  { start: () => start(), without: { ...FETCH_WITHOUT, ...NODE_REQUEST_WITHOUT } },
  { describe, it },
);

describe("SvelteKit 3", () => {
  it("does not call resolve for a request that is rejected, and keeps the order of sequence (seed 001)", async () => {
    const { url, close } = await start();
    onTestFinished(close);
    const login = async () => (await fetch(new URL("/rules/login", url), { method: "POST" })).status;
    expect([await login(), await login(), await login()]).toEqual([200, 429, 429]);
    const logs = (await (await fetch(new URL("/seen", url))).json()) as { rules: { handled: number } };
    expect(logs.rules.handled).toBe(1);
    const order = await fetch(new URL("/order", url));
    expect(order.headers.get("X-Order")).toBe("before, after");
    expect(order.headers.get("RateLimit-Policy")).toBe('"3/h";q=3;w=3600');
    await fetch(new URL("/order", url));
    await fetch(new URL("/order", url));
    const rejected = await fetch(new URL("/order", url));
    expect([rejected.status, rejected.headers.get("X-Order")]).toEqual([429, "before"]);
  });
});

ruleSpellings("SvelteKit 3", ({ rules }) => start({ RULES: JSON.stringify(rules.data) }));
