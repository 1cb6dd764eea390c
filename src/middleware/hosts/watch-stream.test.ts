/** When a call whose result is a stream has ended. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { watchStream } from "./watch-stream.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

/** A stream that waits for ever after its first value, and ignores signals. */
async function* stuck(): AsyncGenerator<number> {
  yield 1;
  await new Promise(() => {});
}

function watched(signal?: AbortSignal) {
  const finish = vi.fn(async () => {});
  return { finish, stream: watchStream(stuck(), finish, signal) as AsyncIterable<number> };
}

it("finishes a minute after a disconnect if the stream does not end", async () => {
  const client = new AbortController();
  const { finish, stream } = watched(client.signal);
  const iterator = stream[Symbol.asyncIterator]();
  expect(await iterator.next()).toEqual({ done: false, value: 1 });
  void iterator.next();
  vi.advanceTimersByTime(60_000);
  expect(finish).not.toHaveBeenCalled();
  client.abort();
  // Waits for the pending value, which never arrives.
  void iterator.return?.();
  vi.advanceTimersByTime(59_999);
  expect(finish).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(finish).toHaveBeenCalled();
});

it("finishes after 10 s if nobody reads the stream, which can't be read from then on", () => {
  const { finish, stream } = watched();
  vi.advanceTimersByTime(9999);
  expect(finish).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(finish).toHaveBeenCalled();
  expect(() => stream[Symbol.asyncIterator]()).toThrow("not read in time");
});
