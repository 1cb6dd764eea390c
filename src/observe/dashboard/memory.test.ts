/** Tests how much memory a dashboard needs. */
import { rateLimit } from "sluice/fetch";
import { createObserver, dashboard } from "sluice/observe";
import { defineRules } from "sluice/rules";
import { afterEach, describe, expect, it, vi } from "vitest";
import { collectGarbage } from "../../../test/collect-garbage.ts";

afterEach(() => {
  vi.useRealTimers();
});

const ask = (handler: ReturnType<typeof dashboard>, path: string) =>
  handler(new Request(`http://localhost/_sluice${path}`));

describe("a dashboard", () => {
  it.skipIf(!collectGarbage)("stays below 1 MB with 512 rules and 20 connections that are not read", async () => {
    const observer = createObserver();
    const rules = defineRules(
      {
        rules: Array.from({ length: 512 }, (_, i) => {
          return { name: `rule-${i}`, match: `GET /path-${i}`, limits: { ip: "5/h" } } as const;
        }),
        fallback: "unlimited",
      },
      { observer },
    );
    const limit = rateLimit({ rules, observer, identity: { trustedProxies: 1 } });
    const handle = limit(() => new Response("ok"));
    const send = async () => {
      const headers = { "x-forwarded-for": "203.0.113.7" };
      for (let i = 0; i < 512; i++) {
        await (handle as (request: Request, server: object) => Promise<Response>)(
          new Request(`http://localhost/path-${i}`, { headers }),
          { remoteAddr: { hostname: "127.0.0.1" } },
        );
      }
    };
    await send();
    const used = async () => {
      // Weak references are cleared between two collections.
      for (let i = 0; i < 4; i++) {
        collectGarbage?.();
        await new Promise(setImmediate);
      }
      // External memory contains the buffers of typed arrays.
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    vi.useFakeTimers({ toFake: ["setInterval", "performance"] });
    const fill = async () => {
      const handler = dashboard(observer, { authorize: () => true, rules });
      const bodies: unknown[] = [];
      for (let i = 0; i < 20; i++) bodies.push((await ask(handler, "/events")).body);
      for (let second = 0; second < 25; second += 5) {
        await send();
        vi.advanceTimersByTime(5000);
      }
      return { handler, bodies };
    };
    // The first ones also compile code and fill the counters of the observer.
    for (let i = 0; i < 2; i++) (await fill()).handler.dispose();
    const before = await used();
    const kept = [];
    for (let i = 0; i < 4; i++) kept.push(await fill());
    const bytes = ((await used()) - before) / kept.length;
    const [{ handler, bodies }] = kept as [Awaited<ReturnType<typeof fill>>];
    const { rules: rows, moreRules } = await (await ask(handler, "/data")).json();
    expect([rows.length, moreRules, bodies.length]).toEqual([50, 462, 20]);
    expect(bytes).toBeGreaterThan(100_000);
    expect(bytes).toBeLessThan(1_000_000);
    for (const { handler } of kept) handler.dispose();
  });
});
