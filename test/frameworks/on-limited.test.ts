/** Results of `onLimited` on every framework: a request always gets a response (issue 13). */
import { Readable } from "node:stream";
import type { DecidedRequest } from "sluice/express";
import { afterEach, describe, expect, it, vi } from "vitest";
import { collectWarnings, type Framework, frameworks, nodeFrameworks, sendRequest, start } from "./servers.ts";

// biome-ignore lint/suspicious/noExplicitAny: the server's own arguments
type OnLimited = (limited: DecidedRequest<any>) => unknown;

afterEach(() => void vi.useRealTimers());

/** The second request to an app with this `onLimited`, and the errors that `onError` was called with. */
async function limited(framework: Framework, onLimited: OnLimited, meanwhile?: (errors: unknown[]) => void) {
  const errors: unknown[] = [];
  const app = await start(framework, {
    options: {
      policy: { capacity: 1, tokensPerSecond: "1/d", name: "api" },
      key: () => "k",
      onLimited(decided) {
        if (meanwhile) setImmediate(meanwhile, errors);
        return onLimited(decided);
      },
      onError: (error) => void errors.push(error),
    },
  });
  expect((await sendRequest(app.url)).text).toBe("handled");
  return { ...(await sendRequest(app.url)), errors, frameworkErrors: app.errors };
}

const PROBLEM = { status: 429, type: "application/problem+json" };
/** Values that a framework can't send. */
const unusable: Record<Framework, unknown[]> = {
  node: [{ error: "slow down" }, ["slow down"], 42, true, null, Buffer.from("x"), new Response("slow down")],
  http2: [{ error: "slow down" }, 42],
  express: [{ error: "slow down" }, ["slow down"], 42, false, null, new Response("slow down")],
  fastify: [],
  hono: ["slow down", { error: "slow down" }, 42, null],
  fetch: ["slow down", { error: "slow down" }, 42, null],
};

describe.each(frameworks)("%s", (framework) => {
  it.each(unusable[framework].map((value) => [value]))(
    "reports %o returned by onLimited, and sends the problem document",
    async (value) => {
      for (const onLimited of [() => value, async () => value]) {
        const { errors, frameworkErrors, ...response } = await limited(framework, onLimited);
        expect(response).toMatchObject(framework === "http2" ? { status: 429 } : PROBLEM);
        expect(JSON.parse(response.text).title).toBe("Quota Exceeded");
        expect([errors, frameworkErrors]).toMatchObject([[{ code: "invalid-option", option: "onLimited" }], []]);
      }
    },
  );

  it("sends the problem document after 10 s if the promise of onLimited never resolves", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const never = () => new Promise(() => {});
    const { errors, ...response } = await limited(framework, never, () => void vi.advanceTimersByTime(10_000));
    expect(response).toMatchObject(framework === "http2" ? { status: 429 } : PROBLEM);
    expect(errors).toMatchObject([{ code: "invalid-option", option: "onLimited" }]);
  });

  it("warns once about an onLimited that throws, without onError", async () => {
    const warnings = collectWarnings();
    const app = await start(framework, {
      options: {
        policy: "1/d",
        key: () => "k",
        onLimited: (({ response }: { response: { send(): void } }) => response.send()) as never,
      },
    });
    const statuses: number[] = [];
    for (let i = 0; i < 4; i++) statuses.push((await sendRequest(app.url)).status);
    expect(statuses).toEqual([200, 429, 429, 429]);
    expect(warnings).toMatchObject([{ code: "SLUICE_CALLBACK_FAILED", text: expect.stringContaining("onLimited") }]);
  });
});

describe.each(nodeFrameworks)("%s", (framework) => {
  /** The response of Node, or one that has `send`. */
  const responseOf: (decided: Parameters<OnLimited>[0]) => { end(text: string): void; send(text: string): void } = ({
    args: [, response],
  }) => response;
  const send = (decided: Parameters<OnLimited>[0], text: string) =>
    framework === "fastify" ? responseOf(decided).send(text) : responseOf(decided).end(text);

  it.each<[string, OnLimited]>([
    ["immediately", (decided) => void send(decided, "later")],
    ["immediately, and return its result", (decided) => send(decided, "later")],
    ["immediately, and resolve with its result", async (decided) => send(decided, "later")],
    ["in a callback", (decided) => void setTimeout(() => send(decided, "later"), 5)],
    ["in a callback, and return its timer", (decided) => setTimeout(() => send(decided, "later"), 5)],
    ["before its promise resolves", async (decided) => void send(decided, "later")],
    [
      "later, and return the response object",
      (decided) => {
        setTimeout(() => send(decided, "later"), 5);
        return responseOf(decided);
      },
    ],
  ])("lets onLimited send the response %s", async (what, onLimited) => {
    // Fastify sends a timer as data.
    if (framework === "fastify" && what.includes("timer")) return;
    expect(await limited(framework, onLimited)).toMatchObject({ status: 429, text: "later", errors: [] });
  });

  it.runIf(framework !== "fastify")("lets onLimited pipe a stream into the response", async () => {
    const pipe: OnLimited = ({ args: [, response] }) => Readable.from(["a", "b"]).pipe(response);
    expect(await limited(framework, pipe)).toMatchObject({ status: 429, text: "ab", errors: [] });
  });

  it.each<[string, OnLimited]>([
    ["returns nothing", () => undefined],
    ["returns the response", (decided) => responseOf(decided)],
  ])("sends the problem document after 10 s if onLimited %s and sends nothing", async (_what, onLimited) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { errors, ...response } = await limited(framework, onLimited, (errors) => {
      vi.advanceTimersByTime(9999);
      expect(errors).toEqual([]);
      vi.advanceTimersByTime(1);
    });
    expect(response).toMatchObject(framework === "http2" ? { status: 429 } : PROBLEM);
    expect(errors).toMatchObject([{ code: "invalid-option", option: "onLimited" }]);
    expect((errors[0] as Error).message).toContain(
      "onLimited did not send a response within 10 s. Return a string, or send a response.",
    );
  });
});
