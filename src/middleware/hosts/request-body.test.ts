/** Bodies of requests that are answered: streams, parsed values, disconnects and time limits. */
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { type Context, Hono } from "hono";
import { afterEach, describe, expect, it, vi } from "vitest";
import { abuse } from "../../abuse/abuse.ts";
import { challenge } from "../../abuse/challenge/challenge.ts";
import { loadRules } from "../../rules/define-rules.ts";
import type { RequestBody } from "../gate/request-reader.ts";
import { rateLimit } from "../hono.ts";
import { readBody, readNodeBody } from "./request-body.ts";

const MAX_BYTES = 8;
const encode = (text: string) => new TextEncoder().encode(text);
const decode = (body: RequestBody | undefined) => (body instanceof Uint8Array ? new TextDecoder().decode(body) : body);

afterEach(() => void vi.useRealTimers());

/** A request whose body is written by the test. */
function nodeRequest(headers: Record<string, string> = {}): IncomingMessage {
  const request = new IncomingMessage(new Socket());
  Object.assign(request.headers, headers);
  return request;
}

describe("the body of a Node request", () => {
  it("is read from the stream, up to a size", async () => {
    for (const [chunks, expected] of [
      [["to", "ken"], "token"],
      [["12345678"], "12345678"],
      [["12345678", "9"], undefined],
      [[], ""],
    ] as const) {
      const request = nodeRequest();
      const body = readNodeBody(request, {}, MAX_BYTES);
      for (const chunk of chunks) request.push(chunk);
      request.push(null);
      expect(decode(await body)).toBe(expected);
      expect(request.listenerCount("data")).toBe(0);
    }
  });

  it("is not read if its length is too long", async () => {
    const request = nodeRequest({ "content-length": "9" });
    expect(await readNodeBody(request, undefined, MAX_BYTES)).toBeUndefined();
    expect(request.readableDidRead).toBe(false);
  });

  it.each<[string, unknown, unknown]>([
    ["text", "token", "token"],
    ["bytes", encode("token"), "token"],
    ["a form or JSON", { token: "1" }, { parsed: { token: "1" } }],
    ["text that is too long", "123456789", undefined],
    ["nothing, because another reader has consumed it", undefined, undefined],
  ])("is what a parser has left: %s", async (_, parsed, expected) => {
    const request = nodeRequest();
    request.push("token");
    request.push(null);
    await request.toArray();
    expect(decode(await readNodeBody(request, parsed, MAX_BYTES))).toEqual(expected);
  });

  it("is missing if the client disconnects, before or while it is read", async () => {
    const gone = nodeRequest();
    gone.destroy();
    expect(await readNodeBody(gone, undefined, MAX_BYTES)).toBeUndefined();
    const request = nodeRequest();
    const body = readNodeBody(request, undefined, MAX_BYTES);
    request.push("to");
    request.destroy(new Error("aborted"));
    expect(await body).toBeUndefined();
  });

  it("is missing if it does not arrive within 10 s", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const request = nodeRequest();
    let body: unknown = "pending";
    void readNodeBody(request, undefined, MAX_BYTES).then((read) => void (body = read));
    request.push("to");
    await vi.advanceTimersByTimeAsync(9999);
    expect(body).toBe("pending");
    await vi.advanceTimersByTimeAsync(1);
    expect(body).toBeUndefined();
  });
});

const post = (body: BodyInit | undefined, headers: Record<string, string> = {}) =>
  new Request("http://localhost/", { method: "POST", body, headers, duplex: "half" } as RequestInit);

describe("the body of a Request", () => {
  it("is read from a clone, so the handler can read it as well", async () => {
    const request = post("token");
    expect(decode(await readBody(request, MAX_BYTES))).toBe("token");
    expect(await request.text()).toBe("token");
    const long = post("123456789");
    expect(await readBody(long, MAX_BYTES)).toBeUndefined();
    expect(await long.text()).toBe("123456789");
    expect(decode(await readBody(post(undefined), MAX_BYTES))).toBe("");
  });

  it("is missing if it was read before, or its length is too long", async () => {
    const request = post("token");
    await request.text();
    expect(await readBody(request, MAX_BYTES)).toBeUndefined();
    expect(await readBody(post("x", { "Content-Length": "9" }), MAX_BYTES)).toBeUndefined();
  });

  it("is missing if it does not arrive within 10 s", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    let body: unknown = "pending";
    void readBody(post(new ReadableStream()), MAX_BYTES).then((read) => void (body = read));
    await vi.advanceTimersByTimeAsync(9999);
    expect(body).toBe("pending");
    await vi.advanceTimersByTimeAsync(1);
    expect(body).toBeUndefined();
  });
});

describe("the body of a Hono request", () => {
  const form = { "Content-Type": "application/x-www-form-urlencoded" };
  const json = { "Content-Type": "application/json" };

  /** The status of the answer to a solution in a body, which another middleware reads first. */
  async function solve(headers: Record<string, string>, body: string, read: (context: Context) => Promise<unknown>) {
    const provider = {
      name: "test",
      siteKey: "site",
      scriptUrl: "https://captcha.example/api.js",
      frameOrigin: "https://captcha.example",
      tokenField: "test-response",
      verify: async (token: string) => ({ ok: token === "solved", codes: [] }),
    };
    const login = { name: "login", match: "/login", limits: { ip: "1/d" }, action: "challenge" };
    const rules = loadRules({ rules: [login], fallback: "unlimited" }, { facts: [] });
    const prevention = abuse({ challenge: challenge({ provider, secret: ["0123456789abcdef0123456789abcdef"] }) });
    const app = new Hono();
    app.use(async (context, next) => {
      await read(context);
      await next();
    });
    const identity = { trustedProxies: 1, header: "x-client" };
    app.use(rateLimit({ rules, abuse: prevention, identity }));
    const client = { "X-Client": "203.0.113.7", "User-Agent": "test" };
    const init = { method: "POST", body, headers: { ...client, ...headers } };
    return (await app.request("/.sluice/clearance", init)).status;
  }

  it.each<[string, Record<string, string>, string, (context: Context) => Promise<unknown>]>([
    ["was not read", form, "token=solved", async () => {}],
    ["was read as text", form, "token=solved", ({ req }) => req.text()],
    ["was read as JSON", json, '{"token":"solved"}', ({ req }) => req.json()],
    ["was read as a form", form, "token=solved", ({ req }) => req.formData()],
  ])("is available if it %s", async (_, headers, body, read) => {
    expect(await solve(headers, body, read)).toBe(204);
  });

  it("is missing if it was read from the raw request", async () => {
    expect(await solve(form, "token=solved", ({ req }) => req.raw.text())).toBe(403);
  });
});
