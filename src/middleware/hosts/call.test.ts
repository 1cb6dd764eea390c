/** Tests calls whose client disconnects: when their holds end, and which error the application receives. */
import { concurrency, createLimiter } from "sluice";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openGate } from "../gate/gate.ts";
import type { RateLimitOptions } from "../gate/options.ts";
import type { RequestReader } from "../gate/request-reader.ts";
import { type CallResponder, enterCall } from "./call.ts";

type Args = readonly [object];

const reader: RequestReader<Args> = {
  method: () => "POST",
  header: () => undefined,
  peer: () => undefined,
  hasBody: () => true,
  path: () => "/post.create",
  body: async () => undefined,
  isCall: true,
  repeatable: true,
};

class Disconnected extends Error {}

function callOf(options: RateLimitOptions<Args, unknown>) {
  const gate = openGate<Args, unknown>(options, reader);
  return (signal: AbortSignal, next: CallResponder<Args, unknown>["next"]) =>
    enterCall<Args, unknown>(gate, [{}], {
      next,
      signal,
      reject: () => "rejected",
      disconnected: () => new Disconnected(),
    });
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("a slot of a call whose client disconnects", () => {
  const limiter = createLimiter({ policy: concurrency(5, { leaseMs: "2s" }) });
  const call = callOf({ limiter, key: () => "k" });
  const held = async () => (await limiter.peek("k")).held ?? 0;
  const turn = () => vi.advanceTimersByTimeAsync(0);

  it("is kept for a minute if the call never ends, and renewed meanwhile", async () => {
    const client = new AbortController();
    for (let i = 0; i < 5; i++) void call(client.signal, () => new Promise(() => {}));
    await turn();
    client.abort();
    await vi.advanceTimersByTimeAsync(59_999);
    expect(await held()).toBe(5);
    await vi.advanceTimersByTimeAsync(1);
    expect(await held()).toBe(0);
  });

  it.each(["resolves", "rejects"])("is free when the call %s", async (how) => {
    const client = new AbortController();
    let end = () => {};
    const result = call(client.signal, () => {
      return new Promise((resolve, reject) => {
        end = () => (how === "resolves" ? resolve("done") : reject(new Error("on purpose")));
      });
    }).catch((error: Error) => error.message);
    await turn();
    client.abort();
    await turn();
    expect(await held()).toBe(1);
    end();
    expect(await result).toBe(how === "resolves" ? "done" : "on purpose");
    await turn();
    expect(await held()).toBe(0);
  });

  it("is free if the client disconnected before the call was made, which is not made", async () => {
    const next = vi.fn();
    await expect(call(AbortSignal.abort(), next)).rejects.toThrow(Disconnected);
    expect(next).not.toHaveBeenCalled();
    expect(await held()).toBe(0);
  });
});

it("a call that can't be checked because its client has disconnected is not an error of the application", async () => {
  const onError = vi.fn();
  const call = callOf({ policy: "5/m", onError });
  await expect(call(AbortSignal.abort(), () => "made")).rejects.toThrow(Disconnected);
  expect(onError).not.toHaveBeenCalled();
  await expect(call(new AbortController().signal, () => "made")).rejects.toMatchObject({ code: "unidentified" });
  expect(onError).toHaveBeenCalledOnce();
});
