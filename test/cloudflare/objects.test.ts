/** Durable Objects in real workerd: concurrency, restarts, expiry, faults, bad input. Needs `npm run build`. */
import type { Decision, Inspection } from "sluice";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "../servers/until.js";
import { startWorkerd, storageFolder, type Workerd } from "./workerd.ts";

const storage = storageFolder();
const start = () =>
  startWorkerd("objects-worker.ts", {
    durableObjects: {
      OBJECTS: { className: "Objects", useSQLite: true },
      SLOPPY: { className: "Sloppy", useSQLite: true },
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

/** What a test may see of an object. */
interface Look {
  rows: number;
  alarm: number | null;
  tables: string[];
  born: number;
}

describe("200 at once on a capacity of 50", () => {
  const FIFTY = { admitted: 50, remaining: 0 };

  it.each([1, 16, "per-key"] as const)("in one call, %s shards: 50", async (shards) => {
    expect(await workerd.ask("burst", { shards, calls: "one" })).toEqual({ ...FIFTY, calls: 1 });
  });

  it.each([1, 16, "per-key"] as const)("in 200 calls, %s shards: 50", async (shards) => {
    expect(await workerd.ask("burst", { shards, calls: "many" })).toEqual({ ...FIFTY, calls: 200 });
  });

  it.each([16, "per-key"] as const)("in 200 requests over HTTP, %s shards: 50", async (shards) => {
    const run = `hits ${shards} ${Math.random()}`;
    const decisions = await Promise.all(
      Array.from({ length: 200 }, () => workerd.ask<Decision>("hit", { shards, run })),
    );
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(50);
    expect(decisions.filter(({ degraded }) => degraded)).toEqual([]);
  });

  it("finds an object that waits between reading and writing", async () => {
    const { admitted } = await workerd.ask<{ admitted: number }>("burst", { shards: 1, calls: "many", on: "sloppy" });
    expect(admitted).toBeGreaterThan(50);
  });
});

describe("state that outlives its object", () => {
  it("goes on after a restart of the whole runtime", async () => {
    expect(await workerd.ask("spend", { run: "restart", count: 30 })).toMatchObject({ admitted: 30 });
    await workerd.stop();
    workerd = await start();
    expect(await workerd.ask("spend", { run: "restart", count: 60 })).toMatchObject({ admitted: 20 });
  });

  it("is read or dropped when another version has written it", async () => {
    const { answers, tables } = await workerd.ask<{ answers: boolean[]; tables: string[] }>("versions");
    // A token bucket and a log can't be told by the same spoilt text: each is full again, or as it was.
    expect(answers).toHaveLength(20);
    expect(answers.slice(0, 18)).toEqual(Array(18).fill(true));
    expect(answers.slice(18)).toEqual([false, false]);
    expect(tables.filter((name) => name.startsWith("sluice"))).toEqual(["sluice_buckets_1"]);
  });
});

describe("time that really passes", () => {
  it.concurrent("goes on after an idle object was evicted", async () => {
    const before = await workerd.ask<{ admitted: number; look: Look }>("spend", { run: "idle", count: 30 });
    expect(before.admitted).toBe(30);
    // Nothing may wake it, so that there is nothing to look at meanwhile: workerd lets an object go after ten seconds.
    await new Promise((resolve) => setTimeout(resolve, 13_000));
    const after = await workerd.ask<{ admitted: number; look: Look }>("spend", { run: "idle", count: 60 });
    expect(after.look.born).not.toBe(before.look.born);
    expect(after.admitted).toBe(20);
  });

  it.concurrent("forgets 5000 buckets at the alarm, and keeps those that live", async () => {
    const { admitted, look, now } = await workerd.ask<{ admitted: number; look: Look; now: number }>("fill", {
      run: "expiry",
      short: 5000,
      long: 7,
    });
    expect(admitted).toBe(5007);
    expect(look.rows).toBe(5007);
    expect(look.alarm).toBeGreaterThan(now);
    expect(look.alarm).toBeLessThan(now + 11_000);
    await until(
      "the alarm",
      async () => {
        const { rows } = await workerd.ask<Look>("look", { run: "expiry" });
        return rows > 7 ? `${rows} rows` : undefined;
      },
      30_000,
    );
    const later = await workerd.ask<Look>("look", { run: "expiry" });
    expect(later.rows).toBe(7);
    expect(later.alarm).toBeGreaterThan(now + 3_590_000);
  });
});

describe("expiry", () => {
  it("leaves nothing behind when the last bucket is gone: no row, no table, no alarm", async () => {
    expect(await workerd.ask("fill", { run: "empty", short: 3, long: 3 })).toMatchObject({ look: { rows: 6 } });
    const empty = await workerd.ask<Look>("forget", { run: "empty", ms: 2 * 3_600_000 });
    expect(empty).toMatchObject({ rows: 0, alarm: null, tables: [] });
    // The same object again, as if it had never been.
    expect(await workerd.ask("spend", { run: "empty", count: 60 })).toMatchObject({ admitted: 50, look: { rows: 1 } });
  });

  it("loses no grant that comes while storage is given up", async () => {
    expect(await workerd.ask("vanishing", { rounds: 200 })).toEqual([]);
  });

  it("keeps a bucket for as long as it is used, in memory and in its row", async () => {
    expect(await workerd.ask("lasting")).toEqual({ inMemory: 159, stored: 159 });
  });

  it("does not put an alarm off that an instance before has set", async () => {
    const { before, after } = await workerd.ask<{ before: number; after: number }>("inherited");
    expect(before).toBeGreaterThan(0);
    expect(after).toBe(before);
  });

  it("holds more buckets than memory does, and forgets more than go at once", async () => {
    expect(await workerd.ask("crowd", { keys: 12_000 })).toEqual({
      rounds: [12_000, 12_000, 0],
      rows: 12_000,
      left: [2000, 0, 0],
    });
  });

  it("brings an alarm forward, and never puts it off", async () => {
    const first = await workerd.ask<{ look: Look }>("spend", { run: "forward", count: 1 });
    const second = await workerd.ask<{ look: Look }>("fill", { run: "forward", short: 1, long: 0 });
    expect(second.look.alarm).toBeLessThan(first.look.alarm as number);
    const third = await workerd.ask<{ look: Look }>("spend", { run: "forward", count: 1, keys: ["another"] });
    expect(third.look.alarm).toBe(second.look.alarm);
  });

  it("leaves what a derived class keeps beside the buckets", async () => {
    const { look, mine } = await workerd.ask<{ look: Look; mine: unknown[] }>("neighbours");
    expect(look.rows).toBe(0);
    expect(mine).toEqual([{ kept: "still here" }]);
  });
});

describe("what is written", () => {
  it("is grants: looks, denials and what never fits write nothing, and make no table", async () => {
    const { before, untouched, granted, denied, same, refunded } = await workerd.ask<{
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
    // A bucket that is full again is one that was never used.
    expect(refunded).toBe("[]");
  });

  // The figures of docs/stores/durable-objects.md.
  it("costs a row for a grant, two when its time is moved, one for many at once, and none for a denial", async () => {
    const bill = await workerd.ask<Record<string, { read: number; written: number }>>("bill");
    console.log("rows that are billed:", JSON.stringify(bill));
    expect(bill["the first grant of a key"]?.written).toBe(2);
    // Each grant makes it last a second longer, and the time that its row is kept until is moved now and then.
    expect(bill["99 grants more, one by one"]?.written).toBeLessThan(119);
    expect(bill["99 grants more, one by one"]?.read).toBeLessThan(110);
    expect(bill["100 grants at once"]?.written).toBeLessThanOrEqual(3);
    expect(bill["100 denials"]).toEqual({ read: 0, written: 0 });
  });

  it("is all of a group or none of it, in memory and in rows", async () => {
    const { error, left, stored } = await workerd.ask<{ error: string; left: number; stored: number }>("poison");
    expect(error).toMatch(/poisoned/);
    expect({ left, stored }).toEqual({ left: 49, stored: 49 });
  });

  it("hides secrets and shortens long keys, also in the names of objects", async () => {
    const { rows, inspected, names } = await workerd.ask<{ rows: string[]; inspected: Inspection; names: string[] }>(
      "keys",
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

describe("limiters on objects", () => {
  it("combines policies of one key in one call, and keys of several objects by turns", async () => {
    expect(await workerd.ask("together")).toEqual({ admitted: 5, calls: 1, daily: 15, apart: 3, left: 2 });
  });

  it("denies a flood without asking, also for limiters that are made for every request", async () => {
    expect(await workerd.ask("denials")).toEqual({ denied: true, calls: 0 });
  });

  it("asks other objects when one fails, and takes a call that fails for one fault", async () => {
    expect(await workerd.ask("oneFails")).toEqual({
      degraded: 50,
      afterOne: [],
      events: ["store-down"],
      others: 100,
    });
  });

  it("does not charge for what nobody waits for any more", async () => {
    expect(await workerd.ask("unwanted")).toBe(49);
  });

  it("decides by itself when objects fail, and never sends a charge twice", async () => {
    const seen = await workerd.ask<Record<string, never>>("faults");
    expect(seen).toMatchObject({ admitted: 3, marked: true, late: true, first: 2, events: ["store-down"] });
    expect(seen.closed).toMatchObject({ allowed: false, unavailable: true });
    expect(seen.waited).toBeLessThan(1000);
    expect(seen.hurry).toBeLessThan(1000);
    expect(seen.patience).toBeGreaterThanOrEqual(1990);
    // The call that was under way may have been charged or not; what was charged before is not lost.
    expect([1, 2]).toContain(seen.after);
  });
});

describe("bad input", () => {
  it("is rejected with a clear error and changes nothing", async () => {
    const { byRpc, methods, store, unchanged } = await workerd.ask<{
      byRpc: Record<string, string>;
      methods: Record<string, string>;
      store: Record<string, string>;
      unchanged: boolean;
    }>("input");
    expect(byRpc).toMatchSnapshot();
    for (const [name, error] of Object.entries(methods)) expect(error, name).not.toMatch(/^no error/);
    expect(store).toMatchSnapshot();
    expect(unchanged).toBe(true);
  });

  it("names the oldest compatibility date if the stub has no RPC", async () => {
    const old = await startWorkerd("objects-worker.ts", {
      durableObjects: { OBJECTS: { className: "Objects", useSQLite: true } },
      compatibilityDate: "2024-01-01",
    });
    try {
      expect(await old.ask("error")).toMatch(
        /^durableObjectStore needs a compatibility date of 2024-04-03 or later, because it calls the object by RPC\./,
      );
    } finally {
      await old.stop();
    }
  });

  it("includes an object that replies with another version of the protocol", async () => {
    expect(await workerd.ask("incompatible")).toMatchSnapshot();
  });

  it("names what is missing when the class has no SQLite", async () => {
    const plain = await startWorkerd("objects-worker.ts", {
      durableObjects: { OBJECTS: { className: "Objects", useSQLite: false } },
    });
    try {
      await expect(plain.ask("input")).rejects.toThrow(/new_sqlite_classes/);
    } finally {
      await plain.stop();
    }
  });
});
