/** Keys of frames: parts that never run together, and nobody in a bucket of somebody else. */
import fc from "fast-check";
import { keyPerUser, keyPerUserOrIpPerType, keyPerUserPerType, perUserKey } from "sluice/ws";
import { describe, expect, it } from "vitest";
import { KeyMemory } from "./keys.ts";

const frame = { type: "say", id: "c1", ip: "192.0.2.7", receivedAt: 0 };
const known = { ...frame, data: { tenantId: "acme", userId: "ann" } };
const anonymous = { ...frame, data: undefined };
/** What ws-kit gives: it knows no address, and calls a connection otherwise. */
const wsKit = { type: "say", clientId: "k1", data: {} };

describe("keys", () => {
  it("are made of tenant, user and type", () => {
    expect(keyPerUserOrIpPerType(known)).toBe("acme:user:ann:say");
    expect(keyPerUserPerType(known)).toBe("acme:user:ann:say");
    expect(perUserKey(known)).toBe("acme:user:ann");
    expect(keyPerUser).toBe(perUserKey);
  });

  it("fall back to the address, or to the connection", () => {
    expect(keyPerUserOrIpPerType(anonymous)).toBe("public:ip:192.0.2.7:say");
    expect(keyPerUserOrIpPerType({ ...anonymous, ip: undefined })).toBe("public:connection:c1:say");
    expect(keyPerUserPerType(anonymous)).toBe("public:connection:c1:say");
    expect(perUserKey(anonymous)).toBe("public:connection:c1");
  });

  it("are the same over a context of ws-kit", () => {
    expect(keyPerUserOrIpPerType(wsKit)).toBe("public:connection:k1:say");
    expect(keyPerUserPerType({ ...wsKit, data: { userId: 7 } })).toBe("public:user:7:say");
    expect(perUserKey(wsKit)).toBe("public:connection:k1");
  });

  it.each([
    undefined,
    null,
    "",
    Number.NaN,
    Infinity,
    {},
    [],
    true,
    { toString: () => "ann" },
    Symbol("ann"),
    () => "ann",
  ])("take no user for %s, whom all would share", (userId) => {
    const one = perUserKey({ ...frame, data: { userId } });
    expect(one).toBe("public:connection:c1");
    expect(perUserKey({ ...frame, id: "c2", data: { userId } })).not.toBe(one);
  });

  it("of long types, which clients may invent, are not kept", () => {
    const memory = new KeyMemory();
    const { known } = memory as unknown as { known: Map<unknown, Map<string, string>> };
    const kept = () => JSON.stringify([...known.values()].map((keys) => [...keys]));
    for (let n = 0; n < 100; n++) memory.keyOf(keyPerUserPerType, { ...frame, type: `${n}`.padEnd(100_000, "x") });
    expect(kept()).toBe("[[]]");
    expect(memory.keyOf(keyPerUserPerType, frame)).toBe(memory.keyOf(keyPerUserPerType, frame));
    expect(kept().length).toBeLessThan(200);
  });

  it("never put those in one bucket of whom nothing is known", () => {
    expect(() => perUserKey({ type: "say" })).toThrow(/key: expected a user, an address or the id of a connection/);
  });

  it("of a user who is called like an address or a connection are not theirs", () => {
    const user = keyPerUserOrIpPerType({ ...frame, data: { userId: "ip:192.0.2.7" } });
    expect(user).not.toBe(keyPerUserOrIpPerType(anonymous));
  });

  it("never run together", () => {
    const part = fc.string({ unit: fc.constantFrom("a", "b", ":", "%", "%3A", "user:", "public") });
    const parts = fc.tuple(part, part, part);
    fc.assert(
      fc.property(parts, parts, (one, other) => {
        const keyOf = ([tenantId, userId, type]: string[]) =>
          keyPerUserPerType({ type: type ?? "", id: "c1", data: { tenantId, userId } });
        // Without a tenant it is the public one, and without a user the connection.
        const meant = ([tenant, user, type]: string[]) => JSON.stringify([tenant || "public", user, type]);
        return (keyOf(one) === keyOf(other)) === (meant(one) === meant(other));
      }),
      { numRuns: 5000 },
    );
  });
});
