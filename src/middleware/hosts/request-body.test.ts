/** Bodies of requests that an extension reads: streams, parsed values, disconnects and time limits. */
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { Hono } from "hono";
import { afterEach, describe, expect, it, vi } from "vitest";
import { EXTENSION, type GateExtension } from "../gate/extension.ts";
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

  it.each<[string, Record<string, string>, string, (request: Request) => Promise<unknown>, unknown]>([
    ["was not read", {}, "token", async () => {}, "token"],
    ["was read as text", {}, "token", (request) => request.text(), "token"],
    ["was read as JSON", {}, '{"a":1}', (request) => request.json(), '{"a":1}'],
    ["was read as a form", form, "a=1", (request) => request.formData(), { parsed: { a: "1" } }],
  ])("is available if it %s", async (_, headers, sent, read, expected) => {
    let body: RequestBody | undefined;
    const enter: GateExtension<readonly unknown[]>["enter"] = async (request) => {
      body = await request.body(MAX_BYTES);
      return undefined;
    };
    const app = new Hono();
    app.use(async (context, next) => {
      await read(context.req as never);
      await next();
    });
    app.use(rateLimit({ policy: "1/s", key: () => "k", [EXTENSION]: { enter } } as never));
    app.post("/", async (context) => context.text(await context.req.text()));
    const response = await app.request("/", { method: "POST", body: sent, headers });
    expect(decode(body)).toEqual(expected);
    if (headers !== form) expect(await response.text()).toBe(sent);
  });

  it("is missing if it was read from the raw request", async () => {
    const seen: unknown[] = [];
    const enter: GateExtension<readonly unknown[]>["enter"] = async (request) => {
      seen.push(await request.body(MAX_BYTES));
      return undefined;
    };
    const app = new Hono();
    app.use(async (context, next) => {
      await context.req.raw.text();
      await next();
    });
    app.use(rateLimit({ policy: "1/s", key: () => "k", [EXTENSION]: { enter } } as never));
    await app.request("/", { method: "POST", body: "token" });
    expect(seen).toEqual([undefined]);
  });
});
