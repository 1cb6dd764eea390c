/** Applications that respond while the limiter is still deciding (issue 13). */
import { describe, expect, it } from "vitest";
import { collectWarnings, nodeFrameworks, sendRequest, start } from "./servers.ts";

const NUMBERS = { policy: "p", limit: 9, remaining: 5, resetAfterMs: 1000, nextAfterMs: 1000 };
const results: [string, (finish: { resolve(decision: object): void; reject(error: Error): void }) => void][] = [
  ["fails", ({ reject }) => reject(new Error("the store is down"))],
  ["denies", ({ resolve }) => resolve({ ...NUMBERS, allowed: false, retryAfterMs: 1000 })],
  ["allows", ({ resolve }) => resolve({ ...NUMBERS, allowed: true })],
  ["delays", ({ resolve }) => resolve({ ...NUMBERS, allowed: true, delayMs: 20 })],
];

describe.each(nodeFrameworks)("%s", (framework) => {
  it.each(results)("sends the response of the app once if the limiter %s later", async (name, finish) => {
    const warnings = collectWarnings();
    const waiting: Parameters<typeof finish>[0][] = [];
    const app = await start(framework, {
      options: {
        limiter: {
          consume: () => new Promise((resolve, reject) => waiting.push({ resolve: resolve as never, reject })),
        },
        key: () => "k",
      },
      timeout: (respond) => respond(503, "too slow"),
    });
    expect(await sendRequest(app.url)).toMatchObject({ status: 503, text: "too slow" });
    // An unhandled error would fail the run.
    for (const one of waiting) finish(one);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect([waiting.length, app.handled(), app.errors]).toEqual([1, 0, []]);
    expect(warnings.map(({ code }) => code)).toEqual(name === "fails" ? ["SLUICE_REQUEST_FAILED"] : []);
    expect(await sendRequest(app.url)).toMatchObject({ status: 503, text: "too slow" });
  });
});
