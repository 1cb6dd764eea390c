/** Applications that respond while the limiter still decides: no server writes headers twice (issue 13). */
import { describe, expect, it } from "vitest";
import { collectWarnings, nodeFrameworks, sendRequest, start } from "./servers.ts";

const FIGURES = { policy: "p", limit: 9, remaining: 5, resetAfterMs: 1000, nextAfterMs: 1000 };
const outcomes: [string, (settle: { resolve(decision: object): void; reject(error: Error): void }) => void][] = [
  ["fails", ({ reject }) => reject(new Error("the store is down"))],
  ["denies", ({ resolve }) => resolve({ ...FIGURES, allowed: false, retryAfterMs: 1000 })],
  ["allows", ({ resolve }) => resolve({ ...FIGURES, allowed: true })],
  ["delays", ({ resolve }) => resolve({ ...FIGURES, allowed: true, delayMs: 20 })],
];

describe.each(nodeFrameworks)("%s", (framework) => {
  it.each(outcomes)("sends the response of the app once if the limiter %s later", async (name, settle) => {
    const warnings = collectWarnings();
    const waiting: Parameters<typeof settle>[0][] = [];
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
    // An error that nobody handles would fail the run, as it would end the process.
    for (const one of waiting) settle(one);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect([waiting.length, app.handled(), app.errors]).toEqual([1, 0, []]);
    expect(warnings.map(({ code }) => code)).toEqual(name === "fails" ? ["SLUICE_REQUEST_FAILED"] : []);
    expect(await sendRequest(app.url)).toMatchObject({ status: 503, text: "too slow" });
  });
});
