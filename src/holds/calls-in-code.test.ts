/** Tests how holds and penalties are written in code: by functions, which bring their algorithm, and not by text or names. */
import {
  block,
  combine,
  concurrency,
  createLimiter,
  hold,
  holdSync,
  memoryRateLimiter,
  memoryStore,
  penalty,
  settle,
  strike,
  unblock,
} from "sluice";
import { compilePolicy, decide, decodeCharge, encodeCharge, holdTerms } from "sluice/algorithms";
import { describe, expect, it } from "vitest";
import { flakyStore } from "../../test/flaky-store.ts";

describe("a concurrency limit in code", () => {
  it.each([
    ["5 concurrent", "concurrency(5)"],
    ["5 concurrent lease 30s", 'concurrency(5, { leaseMs: "30s" })'],
  ])("is not the text %s", (text, call) => {
    const error = { code: "invalid-option", option: "policy", expected: call, received: text };
    expect(() => memoryRateLimiter(text as never)).toThrow(expect.objectContaining(error));
    expect(() => memoryRateLimiter(text as never)).toThrow(
      `policy ${JSON.stringify(text)} is text for rules files. In code, write ${call}.`,
    );
  });

  it.each([
    [{ algorithm: "concurrency", limit: 5 }, "concurrency(limit, options)"],
    [{ algorithm: "penalty", blockMs: "1m" }, "penalty(options)"],
  ])("and a penalty have no name: %j", (policy, call) => {
    expect(() => createLimiter({ policy: policy as never })).toThrow(
      `algorithm "${policy.algorithm}" can't be named in code. Write ${call}, which brings its algorithm.`,
    );
  });

  it("has the name and the numbers of the text", () => {
    const policy = compilePolicy(concurrency(5, { leaseMs: "30s" }));
    expect(policy).toMatchObject({ name: "5 concurrent lease 30s", kind: "concurrency", limit: 5, windowMs: 30_000 });
    expect(policy.resolved.algorithm).toBe("concurrency");
    // A copy brings the algorithm as well.
    expect(compilePolicy({ ...concurrency(5), name: "copy" }).algorithm).toBe(policy.algorithm);
  });
});

describe("the functions", () => {
  it("reject limiters that they can't be used with", async () => {
    const rate = memoryRateLimiter("5/m");
    const blocks = memoryRateLimiter(penalty({ blockMs: "1m" }));
    const wrong = { code: "invalid-limiter", option: "limiter" };
    for (const limiter of [rate, combine([rate, blocks])]) {
      await expect(strike(limiter, "k")).rejects.toMatchObject(wrong);
      await expect(block(limiter, "k", "1m")).rejects.toMatchObject(wrong);
      await expect(unblock(limiter, "k")).rejects.toMatchObject(wrong);
    }
    await expect(hold({} as never, "k")).rejects.toMatchObject({ code: "invalid-limiter" });
    await expect(hold(blocks, "k")).rejects.toMatchObject({ code: "unsupported", option: "hold" });
    await expect(settle(blocks, "k", "id", 1)).rejects.toMatchObject({ code: "unsupported", option: "settle" });
  });

  it("hold without a promise only on synchronous stores", () => {
    const remote = createLimiter({ policy: "5/m", store: flakyStore() });
    expect(() => holdSync(remote as never, "k")).toThrow(expect.objectContaining({ code: "unsupported" }));
    expect(holdSync(createLimiter({ policy: "5/m", store: memoryStore() }), "k")).toMatchObject({ remaining: 4 });
  });

  it("reject after the limiter was disposed of", async () => {
    const limiter = memoryRateLimiter(concurrency(5));
    await limiter.dispose();
    await expect(hold(limiter, "k")).rejects.toMatchObject({ code: "disposed" });
    await expect(settle(limiter, "k", "id", 0)).rejects.toMatchObject({ code: "disposed" });
  });
});

describe("an encoded charge", () => {
  it.each([
    compilePolicy("10/s burst 50"),
    compilePolicy("1000/d fixed"),
    compilePolicy(concurrency(7, { leaseMs: "30s", maxHolds: 3, name: "streams" })),
    compilePolicy(penalty({ strikes: 2, blockMs: "1m" })),
  ])("is data, and decoded to the same decision: $name", (policy) => {
    const charge = { policy, key: "k", cost: 1, mode: "hold", hold: holdTerms("h", 1000) } as const;
    const encoded = encodeCharge(charge);
    expect(structuredClone(encoded)).toEqual(encoded);
    expect(encodeCharge({ ...charge, key: "other" }).policy).toBe(encoded.policy);
    const decoded = decodeCharge(JSON.parse(JSON.stringify(encoded)));
    expect({ ...decide(undefined, decoded, 5).decision, policy: policy.name }).toEqual(
      decide(undefined, charge, 5).decision,
    );
  });

  it.each([
    [{ key: "" }, "key"],
    [{ cost: 0.5 }, "cost"],
    [{ mode: "steal" }, "mode"],
    [{ mode: "settle" }, "hold"],
    [{ policy: { algorithm: "none" } }, "algorithm"],
  ])("is rejected: %j", (wrong, option) => {
    const encoded = encodeCharge({ policy: compilePolicy("10/s"), key: "k", cost: 1, mode: "take" });
    expect(() => decodeCharge({ ...encoded, ...wrong } as never)).toThrow(expect.objectContaining({ option }));
  });
});
