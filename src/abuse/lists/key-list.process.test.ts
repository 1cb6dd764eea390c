/** Tests lists of keys: kinds, exceptions, spellings of IP addresses, and errors without keys in them. */
import { SluiceError } from "sluice";
import { keyList } from "sluice/abuse";
import { describe, expect, it, vi } from "vitest";
import { controlledLoader, lookups } from "../../../test/abuse/listed-client.ts";
import { LIST } from "./list.ts";

const { hasKeys } = lookups();

function errorOf(create: () => unknown): SluiceError {
  try {
    create();
  } catch (error) {
    if (error instanceof SluiceError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

describe("keyList", () => {
  it("finds clients by each of their keys, without a promise", () => {
    const list = keyList(["user:42", "user:43", "key:acme"]);
    expect(hasKeys(list, { user: "user:42" })).toBe(true);
    expect(hasKeys(list, { user: "user:44", key: "key:acme" })).toBe(true);
    expect(hasKeys(list, { user: "user:44", key: "key:other" })).toBe(false);
    expect(hasKeys(list, {})).toBe(false);
    expect(list[LIST].name).toBe("keyList");
  });

  it("asks only for kinds that it contains, until one is found", () => {
    const { hasKeys, asked } = lookups();
    const list = keyList(["user:1", "key:a", "user:2"]);
    expect(hasKeys(list, { user: "user:3", key: "key:a", tenant: "tenant:x" })).toBe(true);
    expect(asked.splice(0)).toEqual(["user", "key"]);
    expect(hasKeys(list, { user: "user:2" })).toBe(true);
    expect(asked.splice(0)).toEqual(["user"]);
    expect(hasKeys(keyList([]), { user: "user:2" })).toBe(false);
    expect(asked).toEqual([]);
  });

  it("waits for keys that are verified, and passes their errors on", async () => {
    const list = keyList(["user:1", "key:a"]);
    expect(await hasKeys(list, { user: Promise.resolve(undefined), key: Promise.resolve("key:a") })).toBe(true);
    expect(await hasKeys(list, { user: Promise.resolve("user:2") })).toBe(false);
    await expect(hasKeys(list, { user: Promise.reject(new Error("jwks")) })).rejects.toThrow("jwks");
  });

  it("compares keys exactly: case, spaces, colons and lone surrogates", () => {
    const list = keyList(["user:Ann", "user:a:b", "user:\ud800", "user: x", "user:\n"]);
    for (const key of ["user:Ann", "user:a:b", "user:\ud800", "user: x", "user:\n"])
      expect(hasKeys(list, { user: key }), key).toBe(true);
    for (const key of ["user:ann", "user:a", "user:\udfff", "user:\ufffd", "user:x", "user:", "user"])
      expect(hasKeys(list, { user: key }), key).toBe(false);
  });

  it("never matches exceptions", () => {
    const list = keyList(["user:1", "user:2", "ip:192.0.2.1"], { except: ["user:1", "ip:::ffff:192.0.2.1"] });
    expect(hasKeys(list, { user: "user:1", ip: "ip:192.0.2.1" })).toBe(false);
    expect(hasKeys(list, { user: "user:2" })).toBe(true);
  });

  it("finds IP addresses in every spelling, as identity writes them", () => {
    const list = keyList(["ip:::ffff:203.0.113.7", "ip:2001:DB8:0:0::1/56", "ip:unidentified"]);
    for (const key of ["ip:203.0.113.7", "ip:2001:db8::/56", "ip:unidentified"])
      expect(hasKeys(list, { ip: key }), key).toBe(true);
    expect(hasKeys(list, { ip: "ip:203.0.113.8" })).toBe(false);
  });

  it("hashes at the first use if the runtime has no random numbers while a module loads", async () => {
    vi.resetModules();
    const fresh: typeof import("./key-list.ts") = await import("./key-list.ts");
    const random = vi.spyOn(crypto, "getRandomValues").mockImplementation(() => {
      throw new Error("Disallowed operation called within global scope.");
    });
    const list = fresh.keyList(["user:1", "user:2"], { except: ["user:2"] });
    random.mockRestore();
    expect(hasKeys(list, { user: "user:1" })).toBe(true);
    expect(hasKeys(list, { user: "user:2" })).toBe(false);
  });

  it.each([
    [["user:1", "secret"], 'keyList: source[1] must be a kind, a colon and a value, such as "user:42" or "key:acme".'],
    [["secret:"], 'keyList: source[0] must be a kind, a colon and a value, such as "user:42" or "key:acme".'],
    [[":secret"], 'keyList: source[0] must be a kind, a colon and a value, such as "user:42" or "key:acme".'],
    [["se cret:1"], 'keyList: source[0] must be a kind, a colon and a value, such as "user:42" or "key:acme".'],
    [[`user:secret${"x".repeat(1024)}`], "keyList: source[0] must be a kind, a colon and a value"],
    [[42], "keyList: source[0] must be a kind, a colon and a value"],
    [new Array(1), "keyList: source[0] must be a kind, a colon and a value"],
    [
      ["ip:secret"],
      'keyList: source[0] must be the key of an IP address, such as "ip:203.0.113.7" or "ip:2001:db8::/56".',
    ],
    [["ip:10.0.0.0/8"], "keyList: source[0] must be the key of an IP address"],
    [["ip:2001:db8::1"], "keyList: source[0] must be the key of an IP address"],
    [Array.from({ length: 17 }, (_, i) => `secret${i}:1`), "keyList: the list has more than 16 kinds of keys."],
    [new Array(1_000_001).fill("user:secret"), "keyList: the list has more than 1000000 keys."],
    ["user:secret", "source must be an array of keys, or a function that loads one."],
  ])("rejects an invalid source without its keys in the error", (source, message) => {
    const error = errorOf(() => keyList(source as string[]));
    expect(error.message.startsWith(message), error.message).toBe(true);
    expect(error.code).toBe("invalid-option");
    expect(JSON.stringify(error) + error.message).not.toContain("secret");
  });

  it("rejects invalid exceptions", () => {
    expect(errorOf(() => keyList([], { except: ["x"] })).message).toContain("keyList: except[0] must be");
  });

  it("loads keys, and keeps the old ones if the new ones are invalid", async () => {
    vi.useFakeTimers();
    const { hasKeys, reports } = lookups();
    const { load, calls } = controlledLoader<string[]>();
    const list = keyList(load, { refresh: "1m", name: "banned" });
    const first = hasKeys(list, { user: "user:1" });
    calls[0]?.resolve(["user:1"]);
    await vi.advanceTimersByTimeAsync(0);
    expect(await first).toBe(true);
    for (const poison of [["user:2", "secret"], "user:secret", undefined]) {
      await vi.advanceTimersByTimeAsync(60_000);
      expect(hasKeys(list, { user: "user:1" })).toBe(true);
      calls.at(-1)?.resolve(poison as string[]);
      await vi.advanceTimersByTimeAsync(0);
      expect(hasKeys(list, { user: "user:1" })).toBe(true);
      expect(hasKeys(list, { user: "user:2" })).toBe(false);
      expect(reports.at(-1)?.list).toBe("banned");
      expect(reports.at(-1)?.error.message).not.toContain("secret");
    }
    expect([calls.length, reports.length]).toEqual([4, 3]);
    await vi.advanceTimersByTimeAsync(60_000);
    hasKeys(list, {});
    calls.at(-1)?.resolve([]);
    await vi.advanceTimersByTimeAsync(0);
    expect(hasKeys(list, { user: "user:1" })).toBe(false);
    vi.useRealTimers();
  });
});
