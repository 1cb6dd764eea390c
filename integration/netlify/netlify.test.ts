/** `sluice/netlify` in Deno 2.8, which Netlify's tools run, and in Deno 2.9. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { middlewareSuite } from "sluice/testing";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { runtimesFolder } from "../../runtime-tests/install.js";
import { FETCH_WITHOUT } from "../../test/middleware/mount.ts";
import { startRedis } from "../../test/servers/redis-server.js";
import { startUpstashBridge } from "../../test/servers/upstash-bridge.js";
import { installPacked, startServer } from "../built-app.ts";

const here = fileURLToPath(new URL(".", import.meta.url));
const runtimes = {
  "Deno 2.8": join(here, "node_modules/@deno/linux-x64-glibc/deno"),
  "Deno 2.9": join(runtimesFolder, "node_modules/@deno/linux-x64-glibc/deno"),
};
const RUN = ["run", "--allow-net", "--allow-env", "--allow-read", "--no-check", "--no-lock"];

beforeAll(() => installPacked(here));

for (const [name, deno] of Object.entries(runtimes)) {
  middlewareSuite(
    `Netlify edge functions in ${name}, memory`,
    { start: () => startServer(deno, [...RUN, "serve.js"], here), without: FETCH_WITHOUT },
    { describe, it },
  );

  describe(`Netlify edge functions in ${name}, Upstash`, () => {
    it("limit requests although nothing is kept in memory between them", async () => {
      const redis = await startRedis();
      onTestFinished(() => redis.stop());
      const bridge = await startUpstashBridge(redis.port);
      onTestFinished(() => bridge.stop());
      const env = { UPSTASH_URL: bridge.url, UPSTASH_TOKEN: bridge.token };
      const server = await startServer(deno, [...RUN, "stateless.js"], here, env);
      onTestFinished(server.close);
      const responses = [];
      for (let i = 0; i < 5; i++) {
        const response = await fetch(server.url);
        responses.push([response.status, response.ok ? await response.text() : response.headers.has("Retry-After")]);
      }
      const origin = [200, "from the origin"];
      expect(responses).toEqual([origin, origin, origin, [429, true], [429, true]]);
    });
  });
}
