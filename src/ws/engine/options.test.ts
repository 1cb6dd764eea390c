/** What a guard refuses to be told. */
import { memoryRateLimiter } from "sluice";
import { createGuard } from "sluice/ws";
import { describe, expect, it } from "vitest";
import { hybridRateLimiter } from "../../limiter/hybrid-rate-limiter.ts";

const limiter = memoryRateLimiter({ capacity: 1, tokensPerSecond: 1 });
const hybrid = hybridRateLimiter(limiter, memoryRateLimiter({ capacity: 2, tokensPerSecond: 1 }));

describe("a guard", () => {
  it("needs to be told nothing", () => expect(() => createGuard()).not.toThrow());

  it.each<[string, object, RegExp]>([
    ["an option that nobody knows", { limiter }, /limiter: expected one of limits, .* in createGuard/],
    ["something else than options", [] as object, /createGuard: expected an object, received an array/],
    ["limits that are none", { limits: 5 }, /limits: expected an object, received 5/],
    ["a limiter in place of a limit", { limits: limiter }, /limits: expected \{ limiter \} around the limiter/],
    ["a limit without a limiter", { limits: {} }, /limiter: expected a limiter, or a function.*, received nothing/],
    ["a limit with more than it has", { limits: { limiter, keys: 1 } }, /keys: expected one of limiter, key, cost/],
    ["a key that is no function", { limits: { limiter, key: "a" } }, /key: expected a function, received "a"/],
    ["a cost that is no function", { limits: { limiter, cost: 1 } }, /cost: expected a function, received 1/],
    ["several of which one can't be combined", { limits: [{ limiter }, { limiter: hybrid }] }, /invalid-limiter/],
    ["a size of nothing", { maxBytes: 0 }, /maxBytes: expected a whole number >= 1, received 0/],
    ["a queue that is smaller than a frame", { maxBytes: 10, maxQueuedBytes: 9 }, /maxQueuedBytes: .* >= 10/],
    ["half a handler", { maxPending: 0.5 }, /maxPending: expected a whole number/],
    ["an endless queue", { maxQueued: Infinity }, /maxQueued: expected a whole number/],
    ["a number of strikes below one", { closeAfter: 0 }, /closeAfter: expected a whole number >= 1/],
    ["an action that is none", { onExceeded: "drop" }, /onExceeded: expected send, close, ban, custom or a function/],
    [
      "a code that nobody may send",
      { closeCodes: { rate: 1006 } },
      /closeCodes.rate: expected a code that can be sent/,
    ],
    [
      "a code that means nothing yet",
      { closeCodes: { payload: 2000 } },
      /closeCodes.payload: expected a code that can/,
    ],
    ["a code that is none", { closeCodes: { ban: 99 } }, /closeCodes.ban: expected a whole number >= 1000/],
    ["a code for nothing", { closeCodes: { inflight: 4000 } }, /inflight: expected one of rate, payload, ban/],
    ["types without typeOf", { types: ["a"] }, /typeOf: expected a function .* for types/],
    ["heartbeats without typeOf", { heartbeats: ["a"] }, /typeOf: expected a function .* for heartbeats/],
    ["typeOf without types", { typeOf: String }, /types: expected the types that there are .* or "any"/],
    ["types that are no list", { typeOf: String, types: "say" }, /types: expected a list of names, received "say"/],
    ["heartbeats that are no list", { typeOf: String, types: "any", heartbeats: "a" }, /heartbeats: expected a list/],
    ["a rate that is none", { connection: "fast" }, /connection: expected a rate .* received "fast"/],
    ["a policy that is none", { heartbeat: 5 }, /heartbeat: expected a policy or a rate such as .* received 5/],
    ["a limiter in place of a policy", { connection: limiter }, /connection: expected a policy .* and not a limiter/],
    ["a bucket that is shared", { connection: { capacity: 1, tokensPerSecond: 1, share: true } }, /connection.share/],
    ["a hook that is no function", { onLimitExceeded: {} }, /onLimitExceeded: expected a function/],
    ["upgrades that are no limiter", { upgrades: "10/m" }, /upgrades: expected a limiter, received "10\/m"/],
    ["a most of nothing", { maxOpenPerAddress: 0 }, /maxOpenPerAddress: expected a whole number >= 1/],
    ["a most of a half", { maxOpenPerUser: 1.5 }, /maxOpenPerUser: expected a whole number/],
    ["a prefix out of range", { identity: { ipv6Prefix: 128 } }, /ipv6Prefix: expected at most 64/],
    ["an identity that is none", { identity: "nginx-ish" }, /preset: expected one of/],
    ["a token as identity", { identity: { jwt: {} } }, /jwt: expected one of preset/],
  ])("refuses %s", (_, options, message) => {
    expect(() => createGuard(options)).toThrow(message);
  });

  it.each<[string, unknown]>([
    ["nobody", undefined],
    ["a peer without a name", { send: () => {}, close: () => {} }],
    ["a peer that can't be told anything", { id: "c1", close: () => {} }],
    ["a peer that can't be closed", { id: "c1", send: () => {} }],
  ])("does not attach to %s", (_, peer) => {
    expect(() => createGuard().attach(peer as never)).toThrow(/peer: expected an object with id, send and close/);
  });

  it.each([new Blob(["x"]), 5, null])("receives no frame like %s", (frame) => {
    const connection = createGuard().attach({ id: "c1", send: () => {}, close: () => {} });
    expect(() => connection.receive(frame as never, () => {})).toThrow(/frame: expected a string, an ArrayBuffer/);
    expect(() => connection.receive("x", undefined as never)).toThrow(/handle: expected a function, received nothing/);
  });
});
