/** Clients behind a real nginx: each has its own bucket, and none can choose another. */
import type { IncomingMessage } from "node:http";
import type { RouteOptions, RunningServer } from "sluice/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { listen } from "../../test/middleware/mount.ts";
import { startNginx } from "../../test/servers/nginx.js";
import { sendRequest } from "../send-request.ts";
import { apps } from "./apps.ts";
import { type Front, fronts } from "./fronts.ts";
import { sendLies } from "./lies.ts";

const LIMIT = 5;

/** An app behind nginx, and the keys that its limiter asked about. */
async function behind(front: Front["nginx"], app: (typeof apps)[string], options: RouteOptions) {
  const keys = new Map<string, number>();
  const server: RunningServer = await listen(
    app({
      policy: { capacity: LIMIT, tokensPerSecond: `${LIMIT}/d`, name: "api" },
      onDecision: ({ key }) => void keys.set(key, (keys.get(key) ?? 0) + 1),
      ...options,
    }),
  );
  onTestFinished(server.close);
  const nginx = await startNginx({ ...front, to: Number(new URL(server.url).port) });
  onTestFinished(nginx.stop);
  return { url: nginx.url, direct: server.url, keys };
}

for (const [name, app] of Object.entries(apps)) {
  describe(`${name} behind nginx`, () => {
    const cells = Object.entries(fronts).flatMap(([title, { nginx, identities }]) =>
      identities.map((identity) => [title, JSON.stringify(identity), nginx, identity] as const),
    );
    it.each(cells)("%s, %s: no lie of 1000 chooses a bucket", async (_title, _text, front, identity) => {
      const { url, keys } = await behind(front, app, { identity });
      expect(await sendLies(url, "127.0.0.2", 1000)).toEqual({ 200: LIMIT, 429: 1000 - LIMIT });
      expect([...keys]).toEqual([["ip:127.0.0.2", 1000]]);
      // A client that says nothing, and one that tells lies, from another address.
      expect((await sendRequest(url, "/", { from: "127.0.0.3" })).header("RateLimit")).toMatch(/^"api";r=4;/);
      expect(await sendLies(url, "127.0.0.3", 100)).toEqual({ 200: LIMIT - 1, 429: 101 - LIMIT });
      expect([...keys]).toEqual([
        ["ip:127.0.0.2", 1000],
        ["ip:127.0.0.3", 101],
      ]);
    });

    it("a limiter that reads the chain from the left is fooled, which shows that the lies arrive", async () => {
      const key = ({ headers }: IncomingMessage) => `${headers["x-forwarded-for"]}`.split(",")[0] || "none";
      const { url, keys } = await behind((fronts["X-Forwarded-For"] as Front).nginx, app, { key });
      expect((await sendLies(url, "127.0.0.2", 1000))[200]).toBeGreaterThan(500);
      expect(keys.size).toBeGreaterThan(300);
    });

    it.each(cells.filter(([, text]) => text.includes("127.0.0.1")))(
      "%s, %s: who goes around nginx is known by its own address",
      async (_title, _text, front, identity) => {
        const { direct, keys } = await behind(front, app, { identity });
        expect(await sendLies(direct, "127.0.0.4", 100)).toEqual({ 200: LIMIT, 429: 100 - LIMIT });
        expect([...keys]).toEqual([["ip:127.0.0.4", 100]]);
      },
    );

    it.each(["X-Forwarded-For", "Forwarded, unchecked"])(
      "%s, without an identity: all clients share one bucket, and that is told once",
      async (title) => {
        const events: unknown[] = [];
        const { url, keys } = await behind((fronts[title] as Front).nginx, app, {
          onEvent: (event) => void events.push(event),
        });
        const statuses: number[] = [];
        for (let i = 0; i < 8; i++) statuses.push((await sendRequest(url, "/", { from: `127.0.0.${2 + i}` })).status);
        expect(statuses).toEqual([200, 200, 200, 200, 200, 429, 429, 429]);
        expect([...keys]).toEqual([["ip:127.0.0.1", 8]]);
        expect(events).toEqual([expect.objectContaining({ type: "warning", message: expect.stringMatching(/prox/) })]);
      },
    );
  });
}
