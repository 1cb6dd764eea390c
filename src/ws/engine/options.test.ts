/** The options that a guard rejects, and the messages of the errors. */
import { memoryRateLimiter } from "sluice";
import { createGuard } from "sluice/ws";
import { describe, expect, it } from "vitest";
import { hybridRateLimiter } from "../../remote/hybrid-rate-limiter.ts";

const limiter = memoryRateLimiter({ capacity: 1, tokensPerSecond: 1 });
const hybrid = hybridRateLimiter(limiter, memoryRateLimiter({ capacity: 2, tokensPerSecond: 1 }));

describe("a WebSocket guard", () => {
  it("needs no options", () => expect(() => createGuard()).not.toThrow());

  it.each<[string, object, RegExp]>([
    ["an unknown option", { limiter }, /"limiter" is not an option of createGuard. Use limits, /],
    ["an array instead of options", [] as object, /Expected an object for createGuard, but received an array/],
    ["limits that are a number", { limits: 5 }, /Expected an object for limits, but received 5/],
    [
      "a limiter instead of a limit",
      { limits: limiter },
      /limits must be an object such as \{ limiter \}, but received the limiter itself/,
    ],
    ["a limit without a limiter", { limits: {} }, /limiter must be a limiter, or a function.*, but received undefined/],
    [
      "a limit with an unknown option",
      { limits: { limiter, keys: 1 } },
      /"keys" is not an option of limits. Use limiter, key, cost/,
    ],
    ["a key that is a string", { limits: { limiter, key: "a" } }, /key must be a function, but received "a"/],
    ["a cost that is a number", { limits: { limiter, cost: 1 } }, /cost must be a function, but received 1/],
    [
      "several limits of which one can't be combined",
      { limits: [{ limiter }, { limiter: hybrid }] },
      /invalid-limiter/,
    ],
    ["a maxBytes of 0", { maxBytes: 0 }, /maxBytes must be a whole number >= 1, but received 0/],
    ["a maxQueuedBytes below maxBytes", { maxBytes: 10, maxQueuedBytes: 9 }, /maxQueuedBytes must be .* >= 10/],
    ["a fractional maxPending", { maxPending: 0.5 }, /maxPending must be a whole number/],
    ["an infinite maxQueued", { maxQueued: Infinity }, /maxQueued must be a whole number/],
    ["a closeAfter of 0", { closeAfter: 0 }, /closeAfter must be a whole number >= 1/],
    ["an unknown action", { onExceeded: "drop" }, /onExceeded must be "send", "close", "ban", "custom" or a function/],
    [
      "a close code that must not be sent",
      { closeCodes: { rate: 1006 } },
      /closeCodes.rate must be a code that can be sent/,
    ],
    ["a reserved close code", { closeCodes: { payload: 2000 } }, /closeCodes.payload must be a code that can/],
    ["a close code out of range", { closeCodes: { ban: 99 } }, /closeCodes.ban must be a whole number >= 1000/],
    [
      "an unknown kind of close code",
      { closeCodes: { inflight: 4000 } },
      /"inflight" is not an option of closeCodes. Use rate, payload, ban/,
    ],
    ["types without typeOf", { types: ["a"] }, /typeOf must be set to use types/],
    ["heartbeats without typeOf", { heartbeats: ["a"] }, /typeOf must be set to use heartbeats/],
    ["typeOf without types", { typeOf: String }, /typeOf needs types: an array of the known types, or "any"/],
    [
      "types that are a string",
      { typeOf: String, types: "say" },
      /types must be an array of strings, but received "say"/,
    ],
    [
      "heartbeats that are a string",
      { typeOf: String, types: "any", heartbeats: "a" },
      /heartbeats must be an array of strings/,
    ],
    ["an invalid rate", { connection: "fast" }, /connection must be a rate .* but received "fast"/],
    ["a policy that is a number", { heartbeat: 5 }, /heartbeat must be a policy or a rate such as .* but received 5/],
    ["a limiter instead of a policy", { connection: limiter }, /connection must be a policy .* not a limiter/],
    [
      "a shared policy",
      { connection: { capacity: 1, tokensPerSecond: 1, share: true } },
      /connection.share must be omitted/,
    ],
    ["a listener that is an object", { onLimitExceeded: {} }, /onLimitExceeded must be a function/],
    ["upgrades that are a string", { upgrades: "10/m" }, /upgrades must be a limiter, but received "10\/m"/],
    ["a maxOpenPerAddress of 0", { maxOpenPerAddress: 0 }, /maxOpenPerAddress must be a whole number >= 1/],
    ["a fractional maxOpenPerUser", { maxOpenPerUser: 1.5 }, /maxOpenPerUser must be a whole number/],
    ["an ipv6Prefix out of range", { identity: { ipv6Prefix: 128 } }, /ipv6Prefix must be at most 64/],
    ["an unknown identity", { identity: "nginx-ish" }, /preset must be one of/],
    ["an identity by token", { identity: { jwt: {} } }, /"jwt" is not an option of identity. Use preset/],
  ])("rejects %s", (_, options, message) => {
    expect(() => createGuard(options)).toThrow(message);
  });

  it.each<[string, unknown]>([
    ["an undefined peer", undefined],
    ["a peer without an id", { send: () => {}, close: () => {} }],
    ["a peer without send", { id: "c1", close: () => {} }],
    ["a peer without close", { id: "c1", send: () => {} }],
  ])("does not attach to %s", (_, peer) => {
    expect(() => createGuard().attach(peer as never)).toThrow(/peer must be an object with id, send and close/);
  });

  it.each([new Blob(["x"]), 5, null])("throws for a frame that is %s, and without a handler", (frame) => {
    const connection = createGuard().attach({ id: "c1", send: () => {}, close: () => {} });
    expect(() => connection.receive(frame as never, () => {})).toThrow(/frame must be a string, an ArrayBuffer/);
    expect(() => connection.receive("x", undefined as never)).toThrow(
      /handle must be a function, but received undefined/,
    );
  });
});
