/** The idempotency store in Durable Objects, in real workerd. Needs `npm run build`. */
import type { BeginResult } from "sluice/idempotency";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startWorkerd, type Workerd } from "../cloudflare/workerd.ts";
import { withWorkerd } from "../servers/needs.ts";
import { until } from "../servers/until.js";

let workerd: Workerd;
beforeAll(async () => {
  workerd = await startWorkerd("../idempotency/objects-worker.ts", {
    durableObjects: { OBJECTS: { className: "Entries", useSQLite: true } },
  });
});
afterAll(() => workerd?.stop());

/** Whether an object has a row and an alarm. */
interface Stored {
  rows: number;
  hasAlarm: boolean;
}

/** The response to a payment, and what all payments have cost. */
interface Paid {
  status: number;
  text: string;
  isReplay: boolean;
  runs: number;
  tokens: number;
}

describe("IdempotencyStore: Durable Objects", withWorkerd, () => {
  it("sets an alarm with the first claim", async () => {
    expect(await workerd.run("shortLived", { begin: true })).toEqual({ rows: 1, hasAlarm: true });
  });

  it.each([false, true])("passes the suite; objects that restart before each call: %s", async (crash) => {
    const { cases, failures } = await workerd.run<{ cases: number; failures: string[] }>("suite", { crash });
    expect(failures).toEqual([]);
    expect(cases).toBe(65);
  });

  it("starts one of 50 concurrent HTTP requests", async () => {
    const results = await Promise.all(
      Array.from({ length: 50 }, (_, i) => workerd.run<BeginResult>("begin", { run: "http:", owner: `o${i}` })),
    );
    expect(results.filter(({ state }) => state === "started")).toEqual([{ state: "started", attempt: 1 }]);
    expect(results.filter(({ state }) => state === "in-progress")).toHaveLength(49);
  });

  it.each([0, "5s"])("runs one of 50 duplicates at once, with wait %s", async (wait) => {
    const key = `duplicates ${wait}`.replace(" ", "-");
    const pay = () => workerd.run<Paid>("pay", { key, wait });
    const all = await Promise.all(Array.from({ length: 50 }, pay));
    const stored = all.filter(({ status }) => status === 201);
    expect(stored.filter(({ isReplay }) => !isReplay)).toHaveLength(1);
    expect(new Set(stored.map(({ text }) => text)).size).toBe(1);
    expect(stored.length + all.filter(({ status }) => status === 409).length).toBe(50);
    if (wait !== 0) expect(stored).toHaveLength(50);
    expect(await pay()).toMatchObject({ status: 201, text: stored[0]?.text, isReplay: true, runs: 1, tokens: 1 });
  });

  it("stores one row per key until its TTL ends, then deletes it with the alarm and all storage", async () => {
    expect(await workerd.run("stored")).toMatchInlineSnapshot(`
      {
        "again": {
          "attempt": 1,
          "state": "started",
        },
        "names": [
          "i1:{4c63ec8c89d88799b939b2d4e310b25e}",
        ],
        "states": [
          {
            "alarmInTensOfSeconds": null,
            "rows": [],
            "tables": [],
          },
          {
            "alarmInTensOfSeconds": 360,
            "rows": [
              "i1 claim 1 time 30000 3600000 o1 f1",
            ],
            "tables": [
              "_cf_METADATA",
              "sluice_idempotency_1",
            ],
          },
          {
            "alarmInTensOfSeconds": 360,
            "rows": [
              "i1 response o1 f1
      1[201,{"location":"/orders/42"},"t"]
      {"id":42}",
            ],
            "tables": [
              "_cf_METADATA",
              "sluice_idempotency_1",
            ],
          },
          {
            "alarmInTensOfSeconds": 359,
            "rows": [
              "i1 response o1 f1
      1[201,{"location":"/orders/42"},"t"]
      {"id":42}",
            ],
            "tables": [
              "_cf_METADATA",
              "sluice_idempotency_1",
            ],
          },
          {
            "alarmInTensOfSeconds": null,
            "rows": [],
            "tables": [],
          },
        ],
      }
    `);
  });

  it("deletes at most 1000 rows per alarm, and the rest by another one", async () => {
    expect(await workerd.run("manyExpired")).toEqual({ left: { rows: 500, hasAlarm: true }, tables: [] });
  });

  it("stores the largest valid response in one row", async () => {
    expect(await workerd.run("largest")).toEqual({ stored: true, bytes: 2 ** 20, same: true, header: true });
  });

  it("uses one object per scope, whose name does not contain the scope", async () => {
    const names = await workerd.run<string[]>("scopes");
    expect(names).toHaveLength(2);
    for (const name of names) expect(name).toMatch(/^i1:\{[0-9a-f]{32}\}$/);
  });

  it("rejects calls that are invalid, of another version or for another class", async () => {
    expect(await workerd.run("errors")).toMatchInlineSnapshot(`
      {
        "codes": [
          "store-unavailable",
          "store-unavailable",
          "unsupported",
        ],
        "errors": [
          "The Durable Object speaks protocol 2, but the Worker sent 1. Deploy both from one sluice version. See https://github.com/sluicejs/sluice/blob/main/docs/errors.md#invalid-option",
          "fingerprint must be 1 to 128 letters, digits or characters of _ . ~ + / = -. See https://github.com/sluicejs/sluice/blob/main/docs/errors.md#invalid-option",
          "fingerprint must be 1 to 128 letters, digits or characters of _ . ~ + / = -. See https://github.com/sluicejs/sluice/blob/main/docs/errors.md#invalid-option",
          "entry must be the stored name of an entry. See https://github.com/sluicejs/sluice/blob/main/docs/errors.md#invalid-key",
          "fingerprint must be 1 to 128 letters, digits or characters of _ . ~ + / = -. See https://github.com/sluicejs/sluice/blob/main/docs/errors.md#invalid-option",
          "leaseMs must be a whole number >= 1, but received 0. See https://github.com/sluicejs/sluice/blob/main/docs/errors.md#invalid-option",
          "response must be a text of at most 2097152 characters. See https://github.com/sluicejs/sluice/blob/main/docs/errors.md#invalid-option",
          "owner must be 1 to 128 letters, digits or characters of _ . ~ + / = -. See https://github.com/sluicejs/sluice/blob/main/docs/errors.md#invalid-option",
        ],
        "rows": [
          "i1 claim 1 time 30000 3600000 o1 f1",
        ],
      }
    `);
  });

  it("has deleted the expired claim by its alarm, at most 5 s after its TTL", async () => {
    const present = async () => {
      const { rows, hasAlarm } = await workerd.run<Stored>("shortLived", { begin: false });
      return rows > 0 || hasAlarm ? `${rows} rows, alarm: ${hasAlarm}` : undefined;
    };
    await until("the alarm did not delete the row", present, 15_000);
  });
});
