/** Responses that are captured on `node:http`: every way to write one, and what handlers notice of the delay. */
import { once } from "node:events";
import { IncomingMessage, type RequestListener, ServerResponse, request as send } from "node:http";
import { Socket } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { CapturedResponse } from "../../src/middleware/gate/response-capture.ts";
import { captureOnNode } from "../../src/middleware/hosts/node-capture.ts";
import { listen } from "./mount.ts";

const MAX_BYTES = 10;

/** Starts a server whose responses are captured. `store` settles the promise of `complete`. */
async function capturing(handler: RequestListener) {
  const captured: CapturedResponse[] = [];
  let store = (): void => {};
  const stored = new Promise<void>((resolve) => void (store = resolve));
  const complete = (one: CapturedResponse) => {
    captured.push(one);
    return stored;
  };
  const { url, close } = await listen((request, response) => {
    captureOnNode(response, { maxBytes: MAX_BYTES, complete });
    handler(request, response);
  });
  onTestFinished(close);
  return { url, captured, store };
}

/** Sends a request, and reads the response with its trailers. */
async function read(url: string) {
  const request = send(url).end();
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const body = Buffer.concat(await response.toArray()).toString("latin1");
  const { statusCode: status, headers, trailers } = response;
  return { status, headers, trailers, body };
}

const latin1 = ({ body }: Partial<CapturedResponse> = {}) => body && Buffer.from(body).toString("latin1");

type Write = (response: ServerResponse) => void;

describe("a captured response", () => {
  it.each<[string, Write, string]>([
    ["end with text", (response) => void response.end("text"), "text"],
    ["end with bytes", (response) => void response.end(new Uint8Array([0x74, 0xff])), "t\u00ff"],
    ["end with an encoding", (response) => void response.end("74ff", "hex"), "t\u00ff"],
    ["end with an encoding and a callback", (response) => void response.end("\u00ff", "latin1", () => {}), "\u00ff"],
    ["end with a callback only", (response) => void response.end(() => {}), ""],
    ["UTF-8", (response) => void response.end("\u00ff", "utf8"), "\u00c3\u00bf"],
    [
      "write, then end",
      (response) => {
        response.write("a");
        response.write(Buffer.from("b"), () => {});
        response.write("Yw==", "base64", () => {});
        response.end("d");
      },
      "abcd",
    ],
    [
      "writeHead with headers",
      (response) => void response.writeHead(200, "Fine", { "X-Own": 1, "Set-Cookie": ["a=1", "b=2"] }).end("text"),
      "text",
    ],
    [
      "writeHead with a list",
      (response) => void response.writeHead(200, ["x-own", "1", "Set-Cookie", "a=1", "Set-Cookie", "b=2"]).end("text"),
      "text",
    ],
    [
      "flushHeaders",
      (response) => {
        response.flushHeaders();
        response.end("text");
      },
      "text",
    ],
    ["a stream", (response) => void pipeline(Readable.from(["a", "b"]), response), "ab"],
    [
      "a buffer that is used again",
      (response) => {
        const buffer = Buffer.from("one");
        response.write(buffer, () => {
          buffer.write("two");
          response.end(buffer);
        });
      },
      "onetwo",
    ],
  ])("is the one that was sent: %s", async (name, write, body) => {
    const { url, captured, store } = await capturing((_request, response) => {
      if (!name.startsWith("writeHead")) response.setHeader("X-Own", 1).setHeader("Set-Cookie", ["a=1", "b=2"]);
      write(response);
    });
    const response = read(url);
    await vi.waitFor(() => expect(captured).toHaveLength(1));
    expect([captured[0]?.status, latin1(captured[0])]).toEqual([200, body]);
    expect(captured[0]?.headers).toEqual({ "x-own": "1", "set-cookie": ["a=1", "b=2"] });
    store();
    const sent = await response;
    expect([sent.body, sent.headers["x-own"], sent.headers["set-cookie"]]).toEqual([body, "1", ["a=1", "b=2"]]);
  });

  it.each([204, 304])("has no body for %s", async (status) => {
    const { url, captured, store } = await capturing((_request, response) => {
      response.statusCode = status;
      response.end("ignored");
    });
    store();
    expect(await read(url)).toMatchObject({ status, body: "" });
    expect([captured[0]?.status, latin1(captured[0])]).toEqual([status, ""]);
  });

  it("is sent with its length and its trailers", async () => {
    const { url, captured, store } = await capturing((request, response) => {
      if (request.url === "/short") return void response.end("text");
      response.writeHead(200, { Trailer: "X-Sum" });
      response.write("te");
      response.addTrailers({ "X-Sum": "1" });
      response.end("xt");
    });
    store();
    expect((await read(`${url}short`)).headers["content-length"]).toBe("4");
    expect(await read(url)).toMatchObject({ body: "text", trailers: { "x-sum": "1" } });
    expect(captured.map(latin1)).toEqual(["text", "text"]);
  });

  it("that is too long is reported at once and sent unchanged", async () => {
    const finish: (() => void)[] = [];
    const { url, captured } = await capturing((_request, response) => {
      response.setHeader("Content-Length", 16);
      response.write("12345678");
      response.write("1234");
      finish.push(() => response.end("5678"));
    });
    const response = read(url);
    await vi.waitFor(() => expect(captured).toMatchObject([{ status: 200, body: undefined, missing: "too-long" }]));
    finish[0]?.();
    expect((await response).body).toBe("1234567812345678");
  });

  it("with a Content-Length does not send its last chunk before it is stored", async () => {
    const results: unknown[] = [];
    const { url, store } = await capturing((_request, response) => {
      response.setHeader("Content-Length", 4);
      results.push(response.write("ab"));
      // The callback must be called, because a handler may wait for it.
      results.push(response.write("cd", () => response.end(() => results.push("finished"))));
    });
    let body = "";
    const request = send(url).end();
    const [response] = (await once(request, "response")) as [IncomingMessage];
    response.setEncoding("latin1").on("data", (chunk) => {
      body += chunk;
    });
    await once(response, "data");
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(body).toBe("ab");
    store();
    await once(response, "end");
    expect(body).toBe("abcd");
    await vi.waitFor(() => expect(results).toEqual([true, true, "finished"]));
  });

  it("looks sent while it is stored, so an error handler does not respond as well", async () => {
    const seen: unknown[] = [];
    const { url, captured, store } = await capturing((_request, response) => {
      response.end("first");
      seen.push(response.headersSent, response.writableEnded);
      response.end();
      response.on("finish", () => seen.push("finish", response.headersSent, response.writableEnded));
    });
    const response = read(url);
    await vi.waitFor(() => expect(captured).toHaveLength(1));
    store();
    expect((await response).body).toBe("first");
    expect(seen).toEqual([true, true, "finish", true, true]);
    expect(captured).toHaveLength(1);
  });

  it("reports a write after the end as Node does", async () => {
    const errors: unknown[] = [];
    const { url, store } = await capturing((_request, response) => {
      response.on("error", () => {});
      response.end("text");
      response.write("more", (error) => void errors.push((error as NodeJS.ErrnoException | undefined)?.code));
    });
    store();
    expect((await read(url)).body).toBe("text");
    await vi.waitFor(() => expect(errors).toEqual(["ERR_STREAM_WRITE_AFTER_END"]));
  });

  it("throws for a chunk that can't be sent", async () => {
    const thrown: unknown[] = [];
    const { url, captured, store } = await capturing((_request, response) => {
      for (const method of ["write", "end"] as const) {
        try {
          response[method](1 as never);
        } catch (error) {
          thrown.push((error as NodeJS.ErrnoException).code);
        }
      }
      response.end("text");
    });
    store();
    expect((await read(url)).body).toBe("text");
    expect(thrown).toEqual(["ERR_INVALID_ARG_TYPE", "ERR_INVALID_ARG_TYPE"]);
    expect(captured.map(latin1)).toEqual(["text"]);
  });

  it("is destroyed if it can't be sent any more", async () => {
    const { url, captured, store } = await capturing((_request, response) => {
      response.statusCode = 1000;
      response.end("text");
    });
    store();
    await expect(read(url)).rejects.toThrow();
    expect(captured).toHaveLength(1);
  });

  it("is reported as failed if the handler destroys it", async () => {
    const error = new Error("on purpose");
    const { url, captured } = await capturing((_request, response) => {
      response.write("te");
      response.destroy(error);
    });
    await expect(read(url)).rejects.toThrow();
    expect(captured).toMatchObject([{ status: 200, body: undefined, missing: "failed", error }]);
  });

  it("is captured if the client disconnects, and not reported twice", async () => {
    const { url, captured } = await capturing((_request, response) => {
      response.write("te");
      response.on("close", () => {
        response.write("x");
        response.end("t");
      });
    });
    const request = send(url).end();
    request.on("error", () => {});
    await once(request, "response");
    request.destroy();
    await vi.waitFor(() => expect(captured.map(latin1)).toEqual(["text"]));
  });
});

describe("a response that never ends", () => {
  afterEach(() => void vi.useRealTimers());

  it.each([
    ["while it is captured", false],
    ["before it is captured", true],
  ])("is given up 60 s after the client has disconnected %s", (_, isLate) => {
    vi.useFakeTimers();
    const captured: CapturedResponse[] = [];
    const response = new ServerResponse(new IncomingMessage(new Socket()));
    const disconnect = () => {
      response.destroyed = true;
      response.emit("close");
    };
    if (isLate) disconnect();
    captureOnNode(response, { maxBytes: MAX_BYTES, complete: (one) => void captured.push(one) });
    if (!isLate) disconnect();
    vi.advanceTimersByTime(59_999);
    expect(captured).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(captured).toMatchObject([{ body: undefined, missing: "aborted" }]);
  });
});
