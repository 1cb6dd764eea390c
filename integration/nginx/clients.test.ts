/** Clients behind a real nginx: each has its own bucket, and forged headers do not change it. */
import type { IncomingMessage } from "node:http";
import type { RouteOptions, RunningServer } from "sluice/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { listen } from "../../test/middleware/mount.ts";
import { startNginx } from "../../test/servers/nginx.js";
import { sendRequest } from "../send-request.ts";
import { apps } from "./apps.ts";
import { sendForged } from "./forged-headers.ts";
import { type Front, fronts } from "./fronts.ts";

const LIMIT = 5;

/** An app behind nginx, and the keys that its limiter was called with. */
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
    it.each(cells)("ignores 1000 forged headers with %s, %s", async (_title, _text, front, identity) => {
      const { url, keys } = await behind(front, app, { identity });
      expect(await sendForged(url, "127.0.0.2", 1000)).toEqual({ 200: LIMIT, 429: 1000 - LIMIT });
      expect([...keys]).toEqual([["ip:127.0.0.2", 1000]]);
      // Another address, first without and then with forged headers.
      expect((await sendRequest(url, "/", { from: "127.0.0.3" })).header("RateLimit")).toMatch(/^"api";r=4;/);
      expect(await sendForged(url, "127.0.0.3", 100)).toEqual({ 200: LIMIT - 1, 429: 101 - LIMIT });
      expect([...keys]).toEqual([
        ["ip:127.0.0.2", 1000],
        ["ip:127.0.0.3", 101],
      ]);
    });

    it("forwards the forged headers, as a limiter that parses from the left shows", async () => {
      const key = ({ headers }: IncomingMessage) => `${headers["x-forwarded-for"]}`.split(",")[0] || "none";
      const { url, keys } = await behind((fronts["X-Forwarded-For"] as Front).nginx, app, { key });
      expect((await sendForged(url, "127.0.0.2", 1000))[200]).toBeGreaterThan(500);
      expect(keys.size).toBeGreaterThan(300);
    });

    it.each(cells.filter(([, text]) => text.includes("127.0.0.1")))(
      "identifies a client that bypasses nginx by its own address with %s, %s",
      async (_title, _text, front, identity) => {
        const { direct, keys } = await behind(front, app, { identity });
        expect(await sendForged(direct, "127.0.0.4", 100)).toEqual({ 200: LIMIT, 429: 100 - LIMIT });
        expect([...keys]).toEqual([["ip:127.0.0.4", 100]]);
      },
    );

    it.each(["X-Forwarded-For", "Forwarded, unchecked"])(
      "puts all clients in one bucket without an identity, and warns once, with %s",
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
