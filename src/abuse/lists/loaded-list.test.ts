/** Tests lists that a function loads: waiting, refreshing, failures and reloads in slices. Time is fake. */
import { SluiceError } from "sluice";
import { ipList, keyList, type List } from "sluice/abuse";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { controlledLoader, lookups } from "../../../test/abuse/listed-client.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Advances time, and runs the timers and slices that are due. */
const advance = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const HOUR = 3_600_000;

/** A list that was loaded once, with 10.0.0.1 in it. */
async function loadedList(options: Parameters<typeof ipList>[1] = {}) {
  const { load, calls } = controlledLoader<string>();
  const { hasIp, reports } = lookups();
  const list = ipList(load, options);
  const first = hasIp(list, "10.0.0.1");
  calls[0]?.resolve("10.0.0.1");
  await advance(0);
  expect(await first).toBe(true);
  return { list, calls, reports, has: (ip: string) => hasIp(list, ip) };
}

describe("the first load", () => {
  it("starts at the first use, and only once", async () => {
    const { load, calls } = controlledLoader<string>();
    const { hasIp, reports } = lookups();
    const list = ipList(load);
    expect(calls).toHaveLength(0);
    const results = ["10.0.0.1", "10.0.0.2", "::ffff:10.0.0.1"].map((ip) => hasIp(list, ip));
    expect(results[0]).toBeInstanceOf(Promise);
    expect(calls).toHaveLength(1);
    await advance(2999);
    calls[0]?.resolve("10.0.0.1");
    await advance(0);
    expect(await Promise.all(results)).toEqual([true, false, true]);
    expect(hasIp(list, "10.0.0.1")).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
    expect(reports).toEqual([]);
  });

  it("does not start for a client without an address", () => {
    const { load, calls } = controlledLoader<string>();
    expect(lookups().hasIp(ipList(load), undefined)).toBe(false);
    expect(calls).toHaveLength(0);
  });

  it("is waited for at most 3 s. Then the list is empty, which is reported once, until the load ends", async () => {
    const { load, calls } = controlledLoader<string>();
    const { hasIp, reports } = lookups();
    const list = ipList(load, { name: "tor" });
    let settled = 0;
    const count = (isListed: boolean) => {
      settled++;
      return isListed;
    };
    const first = Promise.resolve(hasIp(list, "10.0.0.1")).then(count);
    await advance(2000);
    const second = Promise.resolve(hasIp(list, "10.0.0.1")).then(count);
    await advance(999);
    expect(settled).toBe(0);
    await advance(1);
    expect(settled).toBe(2);
    expect(await Promise.all([first, second])).toEqual([false, false]);
    expect(reports).toHaveLength(1);
    expect(reports[0]?.list).toBe("tor");
    expect(reports[0]?.error.message).toContain("ipList: loading the list took longer than 3 s.");
    // Later requests don't wait for the same load.
    expect(hasIp(list, "10.0.0.1")).toBe(false);
    calls[0]?.resolve("10.0.0.1");
    await advance(0);
    expect(hasIp(list, "10.0.0.1")).toBe(true);
    expect([calls.length, reports.length]).toEqual([1, 1]);
  });

  it("leaves the list empty if it fails, and is repeated in the background after a minute", async () => {
    const { load, calls } = controlledLoader<string>();
    const { hasIp, reports } = lookups();
    const list = ipList(load);
    const first = hasIp(list, "10.0.0.1");
    const cause = new Error("503");
    calls[0]?.reject(cause);
    expect(await first).toBe(false);
    expect(reports).toHaveLength(1);
    expect(reports[0]?.error).toMatchObject({ code: "invalid-option", option: "source", cause });
    expect(reports[0]?.error).toBeInstanceOf(SluiceError);
    await advance(59_999);
    expect(hasIp(list, "10.0.0.1")).toBe(false);
    expect(calls).toHaveLength(1);
    await advance(1);
    expect(hasIp(list, "10.0.0.1")).toBe(false);
    expect(calls).toHaveLength(2);
    calls[1]?.resolve("10.0.0.1");
    await advance(0);
    expect(hasIp(list, "10.0.0.1")).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("leaves the list empty if the function throws, and answers without a promise", () => {
    const { hasIp, reports } = lookups();
    const list = ipList(() => {
      throw new Error("no file");
    });
    expect(hasIp(list, "10.0.0.1")).toBe(false);
    expect(hasIp(list, "10.0.0.1")).toBe(false);
    expect(reports).toHaveLength(1);
  });

  it("is reported once if it is late and fails afterwards", async () => {
    const { load, calls } = controlledLoader<string>();
    const { hasIp, reports } = lookups();
    void hasIp(ipList(load), "10.0.0.1");
    await advance(3000);
    calls[0]?.reject(new Error("reset"));
    await advance(0);
    expect(reports).toHaveLength(1);
  });

  it("is given up after a minute, and its late result is ignored", async () => {
    const { load, calls } = controlledLoader<string>();
    const { hasIp, reports } = lookups();
    const list = ipList(load);
    const first = hasIp(list, "10.0.0.1");
    await advance(3000);
    expect(await first).toBe(false);
    await advance(57_000);
    expect(hasIp(list, "10.0.0.1")).toBe(false);
    expect(calls).toHaveLength(1);
    await advance(60_000);
    expect(hasIp(list, "10.0.0.1")).toBe(false);
    expect(calls).toHaveLength(2);
    calls[0]?.resolve("10.0.0.1");
    await advance(0);
    expect(hasIp(list, "10.0.0.1")).toBe(false);
    calls[1]?.resolve("10.0.0.2");
    await advance(0);
    expect([hasIp(list, "10.0.0.1"), hasIp(list, "10.0.0.2")]).toEqual([false, true]);
    expect(reports).toHaveLength(1);
  });
});

describe("a refresh", () => {
  it("starts with the first request after an hour, while requests use the old list without a promise", async () => {
    const { has, calls, reports } = await loadedList();
    await advance(HOUR - 1);
    expect(has("10.0.0.1")).toBe(true);
    expect(calls).toHaveLength(1);
    await advance(1);
    expect(calls).toHaveLength(1);
    for (let i = 0; i < 3; i++) expect([has("10.0.0.1"), has("10.0.0.2")]).toEqual([true, false]);
    expect(calls).toHaveLength(2);
    calls[1]?.resolve("10.0.0.2");
    await advance(0);
    expect([has("10.0.0.1"), has("10.0.0.2")]).toEqual([false, true]);
    expect(reports).toEqual([]);
    // No timer keeps the process alive.
    expect(vi.getTimerCount()).toBe(0);
  });

  it("starts after the time in `refresh`", async () => {
    const { has, calls } = await loadedList({ refresh: "10s" });
    await advance(9999);
    has("10.0.0.1");
    expect(calls).toHaveLength(1);
    await advance(1);
    has("10.0.0.1");
    expect(calls).toHaveLength(2);
  });

  it.each([
    ["HTML", "<!doctype html>\n<title>Sign in</title>"],
    ["JSON", '{"prefixes":["10.0.0.2"]}'],
    ["every IPv4 address", "10.0.0.2\n0.0.0.0/0"],
    ["every IPv6 address", "10.0.0.2\n::/0"],
    ["every IPv4 address in two halves", "0.0.0.0/1\n128.0.0.0/1"],
    ["a truncated line", "10.0.0.2\n10.0."],
    ["an empty text", " \r\n"],
    ["a long text", "#".repeat(64 * 2 ** 20 + 1)],
    ["one long line", "/".repeat(10_000_000)],
    ["too many ranges", "10.0.0.2\n".repeat(1_000_001)],
    ["a response instead of its text", { status: 200 }],
    ["undefined", undefined],
  ])("keeps the old list if the new one is %s, and reports it once", async (_name, poison) => {
    const { has, calls, reports } = await loadedList({ name: "feed" });
    await advance(HOUR);
    has("10.0.0.1");
    calls[1]?.resolve(poison as string);
    for (let i = 0; i < 1000 && reports.length === 0; i++) await advance(1);
    expect(reports).toHaveLength(1);
    expect(reports[0]).toMatchObject({ list: "feed", error: { code: "invalid-option" } });
    expect([has("10.0.0.1"), has("10.0.0.2")]).toEqual([true, false]);
    // The next attempt is made after a minute, and not with every request.
    await advance(58_000);
    has("10.0.0.1");
    expect(calls).toHaveLength(2);
    await advance(2000);
    has("10.0.0.1");
    expect(calls).toHaveLength(3);
  });

  it("accepts a list that a comment declares as empty", async () => {
    const { has, calls, reports } = await loadedList();
    await advance(HOUR);
    has("10.0.0.1");
    calls[1]?.resolve("# nobody today");
    await advance(0);
    expect(has("10.0.0.1")).toBe(false);
    expect(reports).toEqual([]);
  });

  it("reports every failed load, each once", async () => {
    const { has, calls, reports } = await loadedList({ refresh: "5s" });
    for (let i = 1; i <= 3; i++) {
      await advance(5000);
      for (let j = 0; j < 10; j++) expect(has("10.0.0.1")).toBe(true);
      expect(calls).toHaveLength(i + 1);
      calls[i]?.reject(new Error("503"));
      await advance(0);
      expect(has("10.0.0.1")).toBe(true);
      expect(reports).toHaveLength(i);
    }
  });

  it("that never ends is given up and repeated, and blocks no request", async () => {
    const { has, calls, reports } = await loadedList();
    await advance(HOUR);
    expect(has("10.0.0.1")).toBe(true);
    await advance(59_999);
    expect(has("10.0.0.1")).toBe(true);
    expect([calls.length, reports.length]).toEqual([2, 0]);
    await advance(1);
    expect(has("10.0.0.1")).toBe(true);
    expect(reports).toHaveLength(1);
    expect(reports[0]?.error.message).toContain("took longer than 60 s");
    await advance(60_000);
    expect(has("10.0.0.1")).toBe(true);
    expect(calls).toHaveLength(3);
  });

  it("passes each load to waitUntil, and reports one that throws", async () => {
    const kept: Promise<unknown>[] = [];
    const { has, calls } = await loadedList({ waitUntil: (promise) => kept.push(promise) });
    expect(kept).toHaveLength(1);
    await advance(HOUR);
    has("10.0.0.1");
    expect(kept).toHaveLength(2);
    calls[1]?.reject(new Error("503"));
    expect(await kept[1]).toBeUndefined();
    const broken = await loadedList({
      waitUntil: () => {
        throw new TypeError("Illegal invocation");
      },
    });
    expect(broken.reports).toHaveLength(1);
    expect(broken.reports[0]?.error.message).toMatch(/^waitUntil must be a function that works without its object/);
  });
});

describe("a reload in slices", () => {
  const COUNT = 30_000;
  const ipText = (octet: number) =>
    Array.from({ length: COUNT }, (_, i) => `${octet}.${(i >> 12) & 255}.${(i >> 4) & 255}.${(i & 15) * 16}/29`).join(
      "\n",
    );
  const keys = (kind: string) => Array.from({ length: 5000 }, (_, i) => `${kind}:${i}`);
  const { hasIp, hasKeys } = lookups();

  it.each<[string, (load: () => Promise<never>) => List, [unknown, unknown], (list: List) => unknown[]]>([
    [
      "ipList",
      (load) => ipList(load),
      [ipText(10), ipText(11)],
      (list) =>
        [10, 11].flatMap((octet) =>
          [`${octet}.0.0.1`, `${octet}.3.255.1`, `${octet}.7.82.241`].map((ip) => hasIp(list, ip)),
        ),
    ],
    [
      "keyList",
      (load) => keyList(load),
      [keys("user"), keys("key")],
      (list) =>
        ["user", "key"].flatMap((kind) => [0, 2500, 4999].map((i) => hasKeys(list, { [kind]: `${kind}:${i}` }))),
    ],
  ])("of %s never exposes half a list", async (_name, create, [before, after], probe) => {
    const { load, calls } = controlledLoader<never>();
    const list = create(load);
    void hasKeys(list, {});
    calls[0]?.resolve(before as never);
    await advance(2000);
    const old = [true, true, true, false, false, false];
    expect(probe(list)).toEqual(old);
    await advance(HOUR);
    let slices = 0;
    vi.stubGlobal("setImmediate", (run: () => void) => {
      slices++;
      expect(probe(list)).toEqual(old);
      setTimeout(run, 0);
    });
    probe(list);
    calls[1]?.resolve(after as never);
    await advance(2000);
    vi.unstubAllGlobals();
    expect(probe(list)).toEqual([false, false, false, true, true, true]);
    expect(slices).toBeGreaterThan(3);
  });

  it("uses the keys that the function returned, even if its array is changed afterwards", async () => {
    const { load, calls } = controlledLoader<string[]>();
    const list = keyList(load);
    void hasKeys(list, { user: "user:1" });
    // So many that their check takes more than one slice.
    const source = Array.from({ length: 20_000 }, (_, i) => `user:${i}`);
    calls[0]?.resolve(source);
    await Promise.resolve();
    await Promise.resolve();
    source.length = 0;
    await advance(2000);
    expect(hasKeys(list, { user: "user:19999" })).toBe(true);
  });
});
