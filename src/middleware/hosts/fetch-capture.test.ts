/** Responses that are captured on servers with `Response`: streams, disconnects and errors. */
import { afterEach, describe, expect, it, vi } from "vitest";
import type { CapturedResponse } from "../gate/response-capture.ts";
import { captureOnFetch } from "./fetch-capture.ts";

const text = (bytes: Uint8Array | undefined) => bytes && new TextDecoder().decode(bytes);
const encode = (chunk: string) => new TextEncoder().encode(chunk);

/** Captures a response. `store` settles the promise of `complete`. */
function capturing(response: Response, maxBytes = 10) {
  const captured: CapturedResponse[] = [];
  let store = (): void => {};
  const stored = new Promise<void>((resolve) => void (store = resolve));
  const complete = (one: CapturedResponse) => {
    captured.push(one);
    return stored;
  };
  return { sent: captureOnFetch(response, { maxBytes, complete }), captured, store };
}

/** A response whose stream is written by the test. */
function live(headers: Record<string, string> = {}) {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const cancelled: unknown[] = [];
  const body = new ReadableStream<Uint8Array>({
    start: (own) => void (controller = own),
    cancel: (reason) => void cancelled.push(reason),
  });
  return {
    response: new Response(body, { headers }),
    cancelled,
    write: (chunk: string) => controller?.enqueue(encode(chunk)),
    close: () => controller?.close(),
    fail: (error: Error) => controller?.error(error),
  };
}

/** Whether a promise is pending after a turn of the event loop. */
async function isPending(promise: Promise<unknown> | undefined): Promise<boolean> {
  const turn = new Promise((resolve) => setTimeout(resolve, 5, "pending"));
  return (await Promise.race([promise?.then(() => "settled"), turn])) === "pending";
}

afterEach(() => void vi.useRealTimers());

describe("a response that is there at once", () => {
  it.each<[string, Response, string]>([
    ["text", new Response("text", { status: 201 }), "text"],
    ["no body", new Response(null, { status: 204 }), ""],
    ["an immutable one", Response.json([1]), "[1]"],
  ])("waits as a whole until it is stored: %s", async (_, response, body) => {
    const { sent, captured, store } = capturing(response);
    expect(await isPending(sent)).toBe(true);
    expect([captured[0]?.status, text(captured[0]?.body)]).toEqual([response.status, body]);
    store();
    expect(await (await sent).text()).toBe(body);
  });

  it("is returned as it is for an upgrade", async () => {
    const upgrade = Object.defineProperty(new Response("x"), "status", { value: 101 });
    const { sent, store } = capturing(upgrade);
    store();
    expect(await sent).toBe(upgrade);
  });

  it("is sent if complete throws or rejects", async () => {
    const fails = [
      () => {
        throw new Error("on purpose");
      },
      () => Promise.reject(new Error("on purpose")),
    ];
    for (const complete of fails) {
      const sent = await captureOnFetch(new Response("text"), { maxBytes: 10, complete });
      expect(await sent.text()).toBe("text");
    }
  });
});

describe("a stream", () => {
  it("is sent as it is produced, and ends when it is stored", async () => {
    const source = live();
    const { sent, captured, store } = capturing(source.response);
    source.write("ab");
    const reader = (await sent).body?.getReader();
    expect(text((await reader?.read())?.value)).toBe("ab");
    source.write("cd");
    expect(text((await reader?.read())?.value)).toBe("cd");
    source.close();
    const end = reader?.read();
    expect(await isPending(end)).toBe(true);
    expect(text(captured[0]?.body)).toBe("abcd");
    store();
    expect((await end)?.done).toBe(true);
  });

  it("with a Content-Length does not send its last chunk before it is stored", async () => {
    const source = live({ "Content-Length": "4" });
    const { sent, store } = capturing(source.response);
    source.write("ab");
    const reader = (await sent).body?.getReader();
    expect(text((await reader?.read())?.value)).toBe("ab");
    source.write("cd");
    const last = reader?.read();
    expect(await isPending(last)).toBe(true);
    source.close();
    expect(await isPending(last)).toBe(true);
    store();
    expect(text((await last)?.value)).toBe("cd");
    expect((await reader?.read())?.done).toBe(true);
  });

  it("that becomes too long is reported at once, and not read ahead", async () => {
    const source = live();
    const { sent, captured } = capturing(source.response, 3);
    source.write("ab");
    const reader = (await sent).body?.getReader();
    source.write("cd");
    await vi.waitFor(() => expect(captured).toMatchObject([{ status: 200, body: undefined, missing: "too-long" }]));
    source.write("ef");
    source.close();
    const parts: (string | undefined)[] = [];
    for (let i = 0; i < 4; i++) parts.push(text((await reader?.read())?.value));
    expect(parts).toEqual(["ab", "cd", "ef", undefined]);
  });

  it("is captured to its end if the client disconnects, or nobody reads it", async () => {
    for (const disconnect of [true, false]) {
      const source = live();
      const { sent, captured } = capturing(source.response);
      source.write("ab");
      const response = await sent;
      if (disconnect) await response.body?.cancel();
      source.write("cd");
      source.close();
      await vi.waitFor(() => expect(text(captured[0]?.body)).toBe("abcd"));
      expect(source.cancelled).toEqual([]);
    }
  });

  it("is cancelled if it becomes too long after a disconnect", async () => {
    const source = live();
    const { sent, captured } = capturing(source.response, 3);
    source.write("ab");
    await (await sent).body?.cancel();
    source.write("cd");
    await vi.waitFor(() => expect(source.cancelled).toHaveLength(1));
    expect(captured).toMatchObject([{ missing: "too-long" }]);
  });

  it("is given up 60 s after a disconnect", async () => {
    const source = live();
    const { sent, captured } = capturing(source.response);
    source.write("ab");
    const { body } = await sent;
    vi.useFakeTimers();
    await body?.cancel("left");
    await vi.advanceTimersByTimeAsync(59_999);
    expect(captured).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(captured).toMatchObject([{ status: 200, body: undefined, missing: "aborted" }]);
    expect(source.cancelled).toEqual(["left"]);
  });

  it("that fails is reported, before and after it was returned", async () => {
    const error = new Error("on purpose");
    for (const isLate of [true, false]) {
      const source = live();
      const { sent, captured } = capturing(source.response);
      if (!isLate) source.fail(error);
      const response = await sent;
      source.fail(error);
      await expect(response.text()).rejects.toBe(error);
      expect(captured).toMatchObject([{ status: 200, body: undefined, missing: "failed", error }]);
    }
  });
});
