import { memoryIdempotencyStore } from "sluice/idempotency";
import { describe, expect, it } from "vitest";
import { type IdempotencyOptions, parseIdempotencyOptions } from "./options.ts";

const store = memoryIdempotencyStore();
const parse = (options: object) => () => parseIdempotencyOptions(options as IdempotencyOptions<readonly unknown[]>);

describe("parseIdempotencyOptions", () => {
  it("fills in the defaults", () => {
    expect(parse({ store })()).toMatchObject({
      header: "idempotency-key",
      methods: new Set(["POST", "PATCH"]),
      required: false,
      ttl: 86_400_000,
      lease: 30_000,
      wait: 0,
      maxBodyBytes: 65_536,
      replayLimit: "60/m",
      onStoreError: "closed",
      deadlineMs: 250,
      docs: "about:blank",
    });
  });

  it("takes the default deadline of the store", () => {
    const remote = {
      ...store,
      begin: store.begin,
      read: store.read,
      renew: store.renew,
      complete: store.complete,
      release: store.release,
    };
    expect(parse({ store: Object.assign(remote, { deadlineMs: 1000 }) })().deadlineMs).toBe(1000);
  });

  it.each([
    [{}, "store: missing; for one process, use memoryIdempotencyStore()."],
    [{ store: {} }, "store must be an idempotency store"],
    [{ store, ttl: "30s" }, 'ttl: must be at least twice the lease ("30s").'],
    [{ store, ttl: "1m", lease: "31s" }, 'ttl: must be at least twice the lease ("31s").'],
    [{ store, methods: ["GET"] }, 'methods: "GET" is already idempotent; list methods such as POST and PATCH.'],
    [{ store, methods: [] }, "methods must be a list of methods"],
    [{ store, header: "a b" }, "header must be the name of a header"],
    [{ store, required: 1 }, "required must be a boolean"],
    [{ store, scope: "user" }, "scope must be a function"],
    [{ store, fingerprint: "body" }, "fingerprint must be a function"],
    [{ store, lease: 0 }, "lease must be a whole number >= 3"],
    [{ store, wait: "1 week" }, "wait must be a number of milliseconds, or text"],
    [{ store, maxBodyBytes: 2 ** 21 }, "maxBodyBytes must be at most 1048576"],
    [{ store, storedHeaders: "location" }, "storedHeaders must be a list of header names"],
    [{ store, storedHeaders: ["Set-Cookie"] }, 'storedHeaders: "set-cookie" is never stored'],
    [{ store, storedHeaders: ["RateLimit-Policy"] }, 'storedHeaders: "ratelimit-policy" is never stored'],
    [{ store, storedHeaders: ["access-control-allow-origin"] }, "is never stored"],
    [{ store, onStoreError: "local" }, "onStoreError must be one of closed, open, throw"],
    [{ store, deadlineMs: 0 }, "deadlineMs must be a whole number >= 1"],
    [{ store, docs: "" }, "docs must be a URL"],
    [{ store, key: () => "user" }, '"key" is not an option of idempotent. Use scope instead'],
  ])("rejects %j", (options, message) => expect(parse(options)).toThrow(message));
});
