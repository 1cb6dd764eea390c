/** Keys of frames: escaped parts, fallbacks for anonymous clients, and the cache. */
import fc from "fast-check";
import { keyPerUser, keyPerUserOrIpPerType, keyPerUserPerType, perUserKey } from "sluice/ws";
import { describe, expect, it } from "vitest";
import { KeyCache } from "./keys.ts";

const frame = { type: "say", id: "c1", ip: "192.0.2.7", receivedAt: 0 };
const known = { ...frame, data: { tenantId: "acme", userId: "ann" } };
const anonymous = { ...frame, data: undefined };
/** A ws-kit context: it has no IP address, and the connection id is `clientId`. */
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

  it("read the data of the socket, which the context of the ws-kit proposal has (issue 30)", () => {
    const proposal = { type: "say", id: "c1", ws: { data: { tenantId: "acme", userId: "ann" } } };
    expect(keyPerUserPerType(proposal)).toBe("acme:user:ann:say");
    expect(keyPerUserOrIpPerType(proposal)).toBe("acme:user:ann:say");
    expect(perUserKey(proposal)).toBe("acme:user:ann");
    // Data of the context comes first.
    expect(perUserKey({ ...proposal, data: { userId: "bob" } })).toBe("acme:user:bob");
    expect(perUserKey({ type: "say", clientId: "k1", data: {}, ws: {} })).toBe("public:connection:k1");
  });

  it("are made of a ws-kit context in the same way", () => {
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
  ])("do not use %s as a user, because all clients would share it", (userId) => {
    const one = perUserKey({ ...frame, data: { userId } });
    expect(one).toBe("public:connection:c1");
    expect(perUserKey({ ...frame, id: "c2", data: { userId } })).not.toBe(one);
  });

  it("are not cached for long types, which clients can invent", () => {
    const cache = new KeyCache();
    const { keys } = cache as unknown as { keys: Map<unknown, Map<string, string>> };
    const cached = () => JSON.stringify([...keys.values()].map((byType) => [...byType]));
    for (let n = 0; n < 100; n++) cache.keyOf(keyPerUserPerType, { ...frame, type: `${n}`.padEnd(100_000, "x") });
    expect(cached()).toBe("[[]]");
    expect(cache.keyOf(keyPerUserPerType, frame)).toBe(cache.keyOf(keyPerUserPerType, frame));
    expect(cached().length).toBeLessThan(200);
  });

  it("throw for a context without user, address and connection id", () => {
    expect(() => perUserKey({ type: "say" })).toThrow(/A key needs a user, an IP address or a connection id/);
  });

  it("differ for a user whose id looks like the key of an address", () => {
    const user = keyPerUserOrIpPerType({ ...frame, data: { userId: "ip:192.0.2.7" } });
    expect(user).not.toBe(keyPerUserOrIpPerType(anonymous));
  });

  it("differ for different parts", () => {
    const part = fc.string({ unit: fc.constantFrom("a", "b", ":", "%", "%3A", "user:", "public") });
    const parts = fc.tuple(part, part, part);
    fc.assert(
      fc.property(parts, parts, (one, other) => {
        const keyOf = ([tenantId, userId, type]: string[]) =>
          keyPerUserPerType({ type: type ?? "", id: "c1", data: { tenantId, userId } });
        // Without a tenant the key has "public", and without a user the connection id.
        const meant = ([tenant, user, type]: string[]) => JSON.stringify([tenant || "public", user, type]);
        return (keyOf(one) === keyOf(other)) === (meant(one) === meant(other));
      }),
      { numRuns: 5000 },
    );
  });
});
