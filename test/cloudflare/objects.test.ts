/** Durable Objects in real workerd: concurrency, restarts, expiry, failures, invalid input. Needs `npm run build`. */
import { type Decision, type Inspection, memoryStore } from "sluice";
import { fakeClock } from "sluice/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runTable } from "../abuse/penalty-table.ts";
import { withWorkerd } from "../servers/needs.ts";
import { until } from "../servers/until.js";
import { startWorkerd, storageFolder, type Workerd } from "./workerd.ts";

const storage = storageFolder();
const start = () =>
  startWorkerd("objects-worker.ts", {
    durableObjects: {
      OBJECTS: { className: "Objects", useSQLite: true },
      RACY: { className: "Racy", useSQLite: true },
      BILLED: { className: "Billed", useSQLite: true },
    },
    durableObjectsPersist: storage.path,
  });

let workerd: Workerd;
beforeAll(async () => {
  workerd = await start();
});
afterAll(async () => {
  await workerd?.stop();
  storage.remove();
});

/** The state of an object. */
interface ObjectState {
  rows: number;
  alarm: number | null;
  tables: string[];
  instanceId: number;
}

describe("200 calls at once on a capacity of 50", withWorkerd, () => {
  const FIFTY = { admitted: 50, remaining: 0 };

  it.each([1, 16, "per-key"] as const)("admit 50 in one RPC, %s shards", async (shards) => {
    expect(await workerd.run("burst", { shards, calls: "one" })).toEqual({ ...FIFTY, calls: 1 });
  });

  it.each([1, 16, "per-key"] as const)("admit 50 in 200 RPCs, %s shards", async (shards) => {
    expect(await workerd.run("burst", { shards, calls: "many" })).toEqual({ ...FIFTY, calls: 200 });
  });

  it.each([16, "per-key"] as const)("admit 50 in 200 HTTP requests, %s shards", async (shards) => {
    const run = `hits ${shards} ${Math.random()}`;
    const decisions = await Promise.all(
      Array.from({ length: 200 }, () => workerd.run<Decision>("hit", { shards, run })),
    );
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(50);
    expect(decisions.filter(({ degraded }) => degraded)).toEqual([]);
  });

  it("admit more than 50 on a mutant that awaits between read and write", async () => {
    const { admitted } = await workerd.run<{ admitted: number }>("burst", { shards: 1, calls: "many", on: "racy" });
    expect(admitted).toBeGreaterThan(50);
  });
});

describe("stored state", withWorkerd, () => {
  it("survives a restart of the runtime", async () => {
    expect(await workerd.run("spend", { run: "restart", count: 30 })).toMatchObject({ admitted: 30 });
    await workerd.stop();
    workerd = await start();
    expect(await workerd.run("spend", { run: "restart", count: 60 })).toMatchObject({ admitted: 20 });
  });

  it("is dropped if another version has written it or it is damaged", async () => {
    const { verdicts, tables } = await workerd.run<{ verdicts: boolean[]; tables: string[] }>("otherVersions");
    // Damaged rows are full buckets; the untouched rows at the end are still empty.
    expect(verdicts).toHaveLength(20);
    expect(verdicts.slice(0, 18)).toEqual(Array(18).fill(true));
    expect(verdicts.slice(18)).toEqual([false, false]);
    expect(tables.filter((name) => name.startsWith("sluice"))).toEqual(["sluice_buckets_1"]);
  });
});

describe("real time", withWorkerd, () => {
  it.concurrent("does not refill a bucket while its idle object is evicted", async () => {
    const before = await workerd.run<{ admitted: number; objectState: ObjectState }>("spend", {
      run: "idle",
      count: 30,
    });
    expect(before.admitted).toBe(30);
    // workerd evicts an object after ten seconds without calls, so don't poll it.
    await new Promise((resolve) => setTimeout(resolve, 13_000));
    const after = await workerd.run<{ admitted: number; objectState: ObjectState }>("spend", {
      run: "idle",
      count: 60,
    });
    expect(after.objectState.instanceId).not.toBe(before.objectState.instanceId);
    expect(after.admitted).toBe(20);
  });

  it.concurrent("triggers the alarm, which deletes 5000 expired buckets and keeps the others", async () => {
    const { admitted, objectState, now } = await workerd.run<{
      admitted: number;
      objectState: ObjectState;
      now: number;
    }>("fill", {
      run: "expiry",
      short: 5000,
      long: 7,
    });
    expect(admitted).toBe(5007);
    expect(objectState.rows).toBe(5007);
    expect(objectState.alarm).toBeGreaterThan(now);
    expect(objectState.alarm).toBeLessThan(now + 11_000);
    await until(
      "the alarm",
      async () => {
        const { rows } = await workerd.run<ObjectState>("objectState", { run: "expiry" });
        return rows > 7 ? `${rows} rows` : undefined;
      },
      30_000,
    );
    const later = await workerd.run<ObjectState>("objectState", { run: "expiry" });
    expect(later.rows).toBe(7);
    expect(later.alarm).toBeGreaterThan(now + 3_590_000);
  });
});

describe("expiry", withWorkerd, () => {
  it("leaves no row, table or alarm behind after the last bucket", async () => {
    expect(await workerd.run("fill", { run: "empty", short: 3, long: 3 })).toMatchObject({ objectState: { rows: 6 } });
    const empty = await workerd.run<ObjectState>("expireAll", { run: "empty", ms: 2 * 3_600_000 });
    expect(empty).toMatchObject({ rows: 0, alarm: null, tables: [] });
    // The same object works again.
    expect(await workerd.run("spend", { run: "empty", count: 60 })).toMatchObject({
      admitted: 50,
      objectState: { rows: 1 },
    });
  });

  it("loses no grant while storage is deleted", async () => {
    expect(await workerd.run("grantsDuringDeletion", { rounds: 200 })).toEqual([]);
  });

  it("keeps a bucket in cache and row for as long as it is in use", async () => {
    expect(await workerd.run("longUse")).toEqual({ inMemory: 159, stored: 159 });
  });

  it("does not postpone the alarm of an earlier instance", async () => {
    const { before, after } = await workerd.run<{ before: number; after: number }>("inheritedAlarm");
    expect(before).toBeGreaterThan(0);
    expect(after).toBe(before);
  });

  it("handles more buckets than the cache holds and than one alarm deletes", async () => {
    expect(await workerd.run("manyBuckets", { keys: 12_000 })).toEqual({
      rounds: [12_000, 12_000, 0],
      rows: 12_000,
      left: [2000, 0, 0],
    });
  });

  it("brings an alarm forward and never postpones it", async () => {
    const first = await workerd.run<{ objectState: ObjectState }>("spend", { run: "forward", count: 1 });
    const second = await workerd.run<{ objectState: ObjectState }>("fill", { run: "forward", short: 1, long: 0 });
    expect(second.objectState.alarm).toBeLessThan(first.objectState.alarm as number);
    const third = await workerd.run<{ objectState: ObjectState }>("spend", {
      run: "forward",
      count: 1,
      keys: ["another"],
    });
    expect(third.objectState.alarm).toBe(second.objectState.alarm);
  });

  it("keeps the tables of a derived class", async () => {
    const { objectState, mine } = await workerd.run<{ objectState: ObjectState; mine: unknown[] }>("otherTables");
    expect(objectState.rows).toBe(0);
    expect(mine).toEqual([{ kept: "still here" }]);
  });
});

describe("writes to storage", withWorkerd, () => {
  it("happen only for grants: peeks, denials and impossible costs create no row and no table", async () => {
    const { before, untouched, granted, denied, same, refunded } = await workerd.run<{
      before: string[];
      untouched: string[];
      granted: string;
      denied: boolean;
      same: boolean;
      refunded: string;
    }>("writes");
    expect(untouched).toEqual(before);
    expect(JSON.parse(granted)).toHaveLength(1);
    expect(denied).toBe(true);
    expect(same).toBe(true);
    // A full bucket has no row.
    expect(refunded).toBe("[]");
  });

  // docs/stores/durable-objects.md states these numbers.
  it("are one row per grant, two if kept_until changes, one for a batch, none for a denial", async () => {
    const bill = await workerd.run<Record<string, { read: number; written: number }>>("billedRows");
    console.log("billed rows:", JSON.stringify(bill));
    expect(bill["the first grant of a key"]?.written).toBe(2);
    // Each grant delays its expiry by a second, and kept_until changes now and then.
    expect(bill["99 more grants, one after the other"]?.written).toBeLessThan(119);
    expect(bill["99 more grants, one after the other"]?.read).toBeLessThan(110);
    expect(bill["100 grants at once"]?.written).toBeLessThanOrEqual(3);
    expect(bill["100 denials"]).toEqual({ read: 0, written: 0 });
  });

  it("contain all of a group or nothing, in cache and rows", async () => {
    const { error, left, stored } = await workerd.run<{ error: string; left: number; stored: number }>("failedWrite");
    expect(error).toMatch(/poisoned/);
    expect({ left, stored }).toEqual({ left: 49, stored: 49 });
  });

  it("contain HMAC tags of secret and long keys, also in object names", async () => {
    const { rows, inspected, names } = await workerd.run<{ rows: string[]; inspected: Inspection; names: string[] }>(
      "storedKeys",
    );
    expect(rows).toHaveLength(3);
    expect(rows.filter((row) => row.includes("api-key"))).toEqual([]);
    expect(Math.max(...rows.map((row) => row.length))).toBeLessThan(200);
    expect(rows).toContain(inspected.storedKey);
    expect(inspected).toMatchObject({ key: "{ada}", found: true, limit: 3, remaining: 2 });
    expect(inspected.ttlMs).toBeGreaterThanOrEqual(inspected.resetAfterMs);
    expect(names).toHaveLength(1);
    expect(names[0]).toMatch(/^key:#[0-9a-f]{32}$/);
  });
});

describe("limiters on Durable Objects", withWorkerd, () => {
  it("charge policies of one key in one RPC, and keys in several objects one after the other", async () => {
    expect(await workerd.run("jointCharges")).toEqual({ admitted: 5, calls: 1, daily: 15, apart: 3, left: 2 });
  });

  it("deny a flood from the cache, also if they are created per request", async () => {
    expect(await workerd.run("cachedDenials")).toEqual({ denied: true, calls: 0 });
  });

  it("use other objects while one fails, and count a failed RPC as one failure", async () => {
    expect(await workerd.run("failingShard")).toEqual({
      degraded: 50,
      afterOne: [],
      events: ["store-down"],
      others: 100,
    });
  });

  it("don't charge an abandoned call", async () => {
    expect(await workerd.run("abandonedCall")).toBe(49);
  });

  it("fall back if objects fail, and never send a charge twice", async () => {
    const seen = await workerd.run<Record<string, never>>("storeFailures");
    expect(seen).toMatchObject({ admitted: 3, marked: true, late: true, first: 2, events: ["store-down"] });
    expect(seen.closed).toMatchObject({ allowed: false, unavailable: true });
    expect(seen.waited).toBeLessThan(1000);
    expect(seen.hurry).toBeLessThan(1000);
    expect(seen.patience).toBeGreaterThanOrEqual(1990);
    // The call in flight may have been charged; the one before it was.
    expect([1, 2]).toContain(seen.after);
  });
});

describe("invalid input", withWorkerd, () => {
  it("is rejected with a clear error and changes nothing", async () => {
    const { byRpc, methods, store, unchanged } = await workerd.run<{
      byRpc: Record<string, string>;
      methods: Record<string, string>;
      store: Record<string, string>;
      unchanged: boolean;
    }>("invalidInput");
    expect(byRpc).toMatchSnapshot();
    for (const [name, error] of Object.entries(methods)) expect(error, name).not.toMatch(/^no error/);
    expect(store).toMatchSnapshot();
    expect(unchanged).toBe(true);
  });

  it("includes a stub without RPC, whose error names the oldest compatibility date", async () => {
    const old = await startWorkerd("objects-worker.ts", {
      durableObjects: { OBJECTS: { className: "Objects", useSQLite: true } },
      compatibilityDate: "2024-01-01",
    });
    try {
      expect(await old.run("callError")).toMatch(
        /^durableObjectStore needs a compatibility date of 2024-04-03 or later, because it calls the object by RPC\./,
      );
    } finally {
      await old.stop();
    }
  });

  it("includes an object that replies with another protocol version", async () => {
    expect(await workerd.run("incompatible")).toMatchSnapshot();
  });

  it("includes a class without SQLite, whose error names new_sqlite_classes", async () => {
    const plain = await startWorkerd("objects-worker.ts", {
      durableObjects: { OBJECTS: { className: "Objects", useSQLite: false } },
    });
    try {
      await expect(plain.run("invalidInput")).rejects.toThrow(/new_sqlite_classes/);
    } finally {
      await plain.stop();
    }
  });
});

describe("rules", withWorkerd, () => {
  it.each(["one", "three"] as const)("change no row if the last limit denies, %s key(s)", async (keys) => {
    expect(await workerd.run("rulesDenial", { keys })).toEqual({
      allowed: [true, true],
      denied: [keys === "one" ? "read.tenant.3" : "read.client"],
      objects: keys === "one" ? 2 : 3,
      isUnchanged: true,
    });
  });

  it("charge all limits of one key in one call", async () => {
    expect(await workerd.run("rulesOneKey")).toEqual({ admitted: 50, callsPerRequest: 1 });
  });

  it("admit no more than the smallest limit to simultaneous requests in three objects", async () => {
    const { admitted, remaining } = await workerd.run<{ admitted: number; remaining: number[] }>("rulesContention");
    expect(admitted).toBeLessThanOrEqual(50);
    expect(admitted).toBeGreaterThan(0);
    // Denied requests refund what they have taken, so nothing is missing.
    const next = admitted < 50 ? 1 : 0;
    expect(remaining).toEqual([80 - admitted - next, 60 - admitted - next, 50 - admitted - next]);
  });
});

describe("penalties", withWorkerd, () => {
  it.each([1, 16, "per-key"] as const)("respond as in memory, field by field, %s shards", async (shards) => {
    const clock = fakeClock();
    const inMemory = await runTable(memoryStore({ clock }), (ms) => clock.advance(ms));
    // Members that are undefined don't survive JSON.
    expect(await workerd.run("penaltyTable", { shards })).toEqual(JSON.parse(JSON.stringify(inMemory)));
  });
});
