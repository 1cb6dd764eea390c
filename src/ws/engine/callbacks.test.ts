/** Errors of the application's callbacks: reported to `onError`, and otherwise once as a process warning. */
import { createLimiter, type Store } from "sluice";
import { createGuard, type GuardOptions } from "sluice/ws";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

const warnings: { code: string; text: string }[] = [];

beforeEach(() => {
  warnings.length = 0;
  vi.spyOn(process, "emitWarning").mockImplementation(((text: string, { code }: { code: string }) => {
    warnings.push({ code, text });
  }) as never);
});
afterEach(() => vi.restoreAllMocks());

/** A connection with room for one frame, that is sent five. */
async function flood(options: GuardOptions): Promise<void> {
  const guard = createGuard({ connection: { capacity: 1, tokensPerSecond: "1/h" }, ...options });
  const connection = guard.attach({ id: "1", send: () => {}, close: () => {} });
  for (let n = 0; n < 5; n++) connection.receive("x", () => {});
  await new Promise((resolve) => setImmediate(resolve));
}

const failing = {
  onLimitExceeded: () => {
    throw new Error("boom");
  },
};
const failures: [string, GuardOptions][] = [
  ["onLimitExceeded that throws", failing],
  ["onLimitExceeded that rejects", { onLimitExceeded: () => Promise.reject(new Error("boom")) }],
  [
    "onExceeded",
    {
      onExceeded: () => {
        throw new Error("boom");
      },
    },
  ],
  [
    "encode",
    {
      encode: () => {
        throw new Error("boom");
      },
    },
  ],
  [
    "onInvalid",
    {
      validate: () => false,
      onInvalid: () => {
        throw new Error("boom");
      },
    },
  ],
];

describe("a callback that fails (issue 13)", () => {
  it.each(failures)("is a process warning, once per guard: %s", async (_, options) => {
    await flood(options);
    expect(warnings).toEqual([{ code: "SLUICE_CALLBACK_FAILED", text: expect.stringContaining("boom") }]);
    await flood(options);
    expect(warnings).toHaveLength(2);
  });

  it.each(failures)("is reported to onError and is no process warning: %s", async (_, options) => {
    const onError = vi.fn();
    await flood({ ...options, onError });
    expect(onError).toHaveBeenCalledWith(expect.objectContaining({ message: "boom" }));
    expect(warnings).toEqual([]);
  });

  it("is a process warning when it rejects a connection", async () => {
    const guard = createGuard();
    const data = () => Promise.reject(new Error("no session store"));
    for (let n = 0; n < 3; n++) {
      const admission = await guard.admit({ peer: "192.0.2.1", headers: {} }, data);
      expect(admission).toMatchObject({ allowed: false, answer: { status: 500 } });
    }
    expect(warnings).toEqual([{ code: "SLUICE_REQUEST_FAILED", text: expect.stringContaining("no session store") }]);
  });
});

it("warns once about a store that fails while frames are rejected for it (issue 13)", async () => {
  const store: Store = {
    consistency: "exact",
    apply: () => Promise.reject(new Error("connection refused")),
    inspect: () => Promise.reject(new Error("not used")),
    dispose: async () => {},
  };
  const limiter = createLimiter({
    policy: { capacity: 5, tokensPerSecond: 5 },
    store,
    onStoreError: "throw",
    onEvent: () => {},
  });
  await flood({ connection: false, limits: { limiter, key: () => "k" } });
  expect(warnings.map(({ code }) => code)).toEqual(["SLUICE_STORE_UNAVAILABLE"]);
});
