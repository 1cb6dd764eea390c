/** The edge function of docs/middleware/netlify.md in Deno, without state in memory between requests. */
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { startRedis } from "../../test/servers/redis-server.js";
import { startUpstashBridge } from "../../test/servers/upstash-bridge.js";
import { installPacked, startServer } from "../built-app.ts";
import { expectResults } from "../docs-page.ts";
import { denos, RUN } from "./deno.ts";

const here = fileURLToPath(new URL(".", import.meta.url));

describe.each(Object.entries(denos))("the page's edge function in %s", (_, deno) => {
  it("responds as the page says although nothing is kept in memory between requests", async () => {
    installPacked(here);
    const redis = await startRedis();
    onTestFinished(() => redis.stop());
    const bridge = await startUpstashBridge(redis.port);
    onTestFinished(() => bridge.stop());
    const env = { UPSTASH_REDIS_REST_URL: bridge.url, UPSTASH_REDIS_REST_TOKEN: bridge.token };
    const server = await startServer(deno, [...RUN, "stateless.js"], here, env);
    onTestFinished(server.close);
    await expectResults("docs/middleware/netlify.md", server.url);
    const rejected = await fetch(new URL("/api/", server.url));
    expect(await rejected.json()).toMatchObject({ status: 429, "violated-policies": ["api"] });
  });
});
