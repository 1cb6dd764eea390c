/** Tasks that check what Durable Objects store, and when they delete it. */
import { consumeAll, createLimiter, type Policy, type RateLimiter, slidingLog, tokenBucket } from "sluice";
import { durableObjectRateLimiter, durableObjectStore } from "sluice/cloudflare";
import type { Tasks } from "../tasks.ts";
import type { Billed } from "./classes.ts";
import { consumeMany, countAllowed, type Env, FIFTY, FreshNamespace, fakeTime, realNow } from "./namespace.ts";

export const storageTasks: Tasks<Env> = {
  /** Consumes from a few keys, and returns the state of their object. */
  async spend({ OBJECTS }, { run, count, keys = ["k"] }: { run: string; count: number; keys?: string[] }) {
    const namespace = new FreshNamespace(OBJECTS, `${run}:`);
    const limiter = durableObjectRateLimiter(namespace, FIFTY, { shards: 1, localDenialMs: 0 });
    const decisions = (await Promise.all(keys.map((key) => consumeMany(limiter, count, key)))).flat();
    return { admitted: countAllowed(decisions), objectState: await namespace.object("shard:0").getState() };
  },

  /** Fills an object with buckets that expire soon and others that do not. */
  async fill({ OBJECTS }, { run, short, long }: { run: string; short: number; long: number }) {
    const namespace = new FreshNamespace(OBJECTS, `${run}:`);
    const store = durableObjectStore(namespace, { shards: 1 });
    const soon = createLimiter({ policy: tokenBucket({ capacity: 1, tokensPerSecond: 10 }), store });
    const late = createLimiter({ policy: tokenBucket({ capacity: 1, tokensPerSecond: "1/1h" }), store });
    const spend = (limiter: RateLimiter, count: number) =>
      Promise.all(Array.from({ length: count }, (_, i) => limiter.consume(`key ${i}`)));
    const decisions = [...(await spend(soon, short)), ...(await spend(late, long))];
    return {
      admitted: countAllowed(decisions),
      objectState: await namespace.object("shard:0").getState(),
      now: realNow(),
    };
  },

  /** Returns the state of an object. */
  async objectState({ OBJECTS }, { run }: { run: string }) {
    return new FreshNamespace(OBJECTS, `${run}:`).object("shard:0").getState();
  },

  /** Consumes while an empty object deletes its storage. */
  async grantsDuringDeletion({ OBJECTS }, { rounds }: { rounds: number }) {
    const advance = fakeTime();
    const lost: unknown[] = [];
    for (let i = 0; i < rounds; i++) {
      const namespace = new FreshNamespace(OBJECTS);
      const make = () =>
        createLimiter({ policy: FIFTY, store: durableObjectStore(namespace, { shards: 1 }), localDenialMs: 0 });
      await make().consume("old", 50);
      advance(2 * 3_600_000);
      const object = () => namespace.object("shard:0");
      await Promise.all([
        make().consume("k"),
        object().ring(),
        make().consume("k"),
        make().consume("another"),
        object().ring(),
        make().consume("k"),
      ]);
      if (i % 2 === 0) await namespace.crash();
      const left = [(await make().peek("k", 0)).remaining, (await make().peek("another", 0)).remaining];
      if (String(left) !== "47,49") lost.push(left);
    }
    Date.now = realNow;
    return lost;
  },

  /** Rings the alarm at a later time. */
  async expireAll({ OBJECTS }, { run, ms }: { run: string; ms: number }) {
    const object = new FreshNamespace(OBJECTS, `${run}:`).object("shard:0");
    Date.now = () => realNow() + ms;
    await object.ring();
    Date.now = realNow;
    return object.getState();
  },

  /** Returns the rows before and after calls that grant, deny, peek and refund. */
  async writes({ OBJECTS }) {
    const namespace = new FreshNamespace(OBJECTS);
    const limiter = durableObjectRateLimiter(namespace, tokenBucket({ capacity: 2, tokensPerSecond: "1/1h" }), {
      shards: 1,
      localDenialMs: 0,
    });
    const object = namespace.object("shard:0");
    const rows = async () => JSON.stringify(await object.sql("SELECT * FROM sluice_buckets_1"));
    const before = (await object.getState()).tables;
    await limiter.peek("k");
    await limiter.consume("k", 3);
    await limiter.refund("k", 1);
    await limiter.reset("k");
    const untouched = (await object.getState()).tables;
    await limiter.consume("k", 2);
    const granted = await rows();
    const denied = await limiter.consume("k");
    await limiter.consume("k", 9);
    await limiter.peek("k");
    const afterDenials = await rows();
    await limiter.refund("k", 2);
    return {
      before,
      untouched,
      granted,
      denied: !denied.allowed,
      same: granted === afterDenials,
      refunded: await rows(),
    };
  },

  /** Uses a bucket for longer than its row was first kept. */
  async longUse({ OBJECTS }) {
    const advance = fakeTime();
    const namespace = new FreshNamespace(OBJECTS);
    const limiter = durableObjectRateLimiter(namespace, tokenBucket({ capacity: 1000, tokensPerSecond: 1 }), {
      shards: 1,
      localDenialMs: 0,
    });
    await limiter.consume("k");
    await limiter.consume("k", 900);
    advance(60_000);
    await namespace.object("shard:0").ring();
    const inMemory = (await limiter.peek("k", 0)).remaining;
    await namespace.crash();
    const stored = (await limiter.peek("k", 0)).remaining;
    Date.now = realNow;
    return { inMemory, stored };
  },

  /** Crashes an object that has set an alarm, and sets a later one. */
  async inheritedAlarm({ OBJECTS }) {
    const namespace = new FreshNamespace(OBJECTS);
    const spend = (policy: Policy) => durableObjectRateLimiter(namespace, policy, { shards: 1 }).consume("k");
    await spend(tokenBucket({ capacity: 1, tokensPerSecond: 1 }));
    const { alarm: before } = await namespace.object("shard:0").getState();
    await namespace.crash();
    await spend(tokenBucket({ capacity: 1, tokensPerSecond: "1/1h" }));
    const { alarm: after } = await namespace.object("shard:0").getState();
    return { before, after };
  },

  /** Makes a write in the middle of a group fail. */
  async failedWrite({ OBJECTS }) {
    const namespace = new FreshNamespace(OBJECTS);
    const store = durableObjectStore(namespace, { shards: 1 });
    const limiter = createLimiter({ policy: FIFTY, store, onStoreError: "throw", localDenialMs: 0 });
    await limiter.consume("k");
    await namespace
      .object("shard:0")
      .sql(
        "CREATE TRIGGER poison BEFORE INSERT ON sluice_buckets_1 WHEN NEW.bucket LIKE '%poison%' BEGIN SELECT RAISE(ABORT, 'poisoned'); END",
      );
    const charges = [
      { limiter, key: "k", cost: 10 },
      { limiter, key: "poison", cost: 10 },
    ];
    const error = await consumeAll(charges).then(
      () => "no error",
      (error: Error) => String((error.cause as Error | undefined)?.message),
    );
    const left = (await limiter.peek("k", 0)).remaining;
    await namespace.crash();
    return { error, left, stored: (await limiter.peek("k", 0)).remaining };
  },

  /** Creates more buckets than the cache holds and than one alarm deletes. */
  async manyBuckets({ OBJECTS }, { keys }: { keys: number }) {
    const advance = fakeTime();
    const namespace = new FreshNamespace(OBJECTS);
    const limiter = durableObjectRateLimiter(namespace, tokenBucket({ capacity: 2, tokensPerSecond: "2/1h" }), {
      shards: 1,
      localDenialMs: 0,
      deadlineMs: "1m",
    });
    const all = Array.from({ length: keys }, (_, i) => `key ${i}`);
    const spend = async () => countAllowed(await Promise.all(all.map((key) => limiter.consume(key))));
    const rounds = [await spend(), await spend(), await spend()];
    const { rows } = await namespace.object("shard:0").getState();
    advance(3 * 3_600_000);
    const left: number[] = [];
    for (let i = 0; i < 3; i++) {
      await namespace.object("shard:0").ring();
      left.push((await namespace.object("shard:0").getState()).rows);
    }
    Date.now = realNow;
    return { rounds, rows, left };
  },

  /** Counts the rows that Cloudflare bills. */
  async billedRows({ BILLED }) {
    const namespace = new FreshNamespace(BILLED);
    const limiter = durableObjectRateLimiter(namespace, tokenBucket({ capacity: 1000, tokensPerSecond: 1 }), {
      shards: 1,
      localDenialMs: 0,
    });
    const object = namespace.object("shard:0") as unknown as Billed;
    const bill: Record<string, { read: number; written: number }> = {};
    const during = async (what: string, calls: () => Promise<unknown>) => {
      await object.billed();
      await calls();
      bill[what] = await object.billed();
    };
    await limiter.consume("another key");
    await during("the first grant of a key", () => limiter.consume("k"));
    await during("99 more grants, one after the other", async () => {
      for (let i = 0; i < 99; i++) await limiter.consume("k");
    });
    await during("100 grants at once", () => consumeMany(limiter, 100));
    await limiter.consume("k", 800);
    await during("100 denials", () => consumeMany(limiter, 100));
    return bill;
  },

  /** Replaces rows by damaged ones, and adds tables of other versions. */
  async otherVersions({ OBJECTS }) {
    const namespace = new FreshNamespace(OBJECTS);
    // The stub of a crashed object stays broken.
    const object = () => namespace.object("shard:0");
    const policies = [tokenBucket("2/h"), slidingLog("2/h")];
    const limiters = policies.map((policy) =>
      durableObjectRateLimiter(namespace, policy, { shards: 1, localDenialMs: 0, onStoreError: "throw" }),
    );
    for (const limiter of limiters) await limiter.consume("k", 2);
    const verdicts: unknown[] = [];
    for (const damaged of ["", "garbage", "1", "1,2,3,4,5,6", "-1,-1", "1e3,2", "9".repeat(30), "NaN,NaN", "3,1,1"]) {
      await object().sql("UPDATE sluice_buckets_1 SET state = ?", damaged);
      await namespace.crash();
      for (const limiter of limiters) verdicts.push((await limiter.consume("k", 2)).allowed);
    }
    await object().sql("CREATE TABLE sluice_buckets_0 (other TEXT)");
    await object().sql("CREATE TABLE sluice_buckets_2 (later TEXT)");
    await namespace.crash();
    for (const limiter of limiters) verdicts.push((await limiter.consume("k", 2)).allowed);
    return { verdicts, tables: (await object().getState()).tables };
  },

  /** Keeps a table beside the buckets. */
  async otherTables({ OBJECTS }) {
    const namespace = new FreshNamespace(OBJECTS);
    const limiter = durableObjectRateLimiter(namespace, tokenBucket("2/h"), { shards: 1 });
    const object = namespace.object("shard:0");
    await object.sql("CREATE TABLE mine (kept TEXT)");
    await object.sql("INSERT INTO mine VALUES ('still here')");
    await limiter.consume("k");
    Date.now = () => realNow() + 3 * 3_600_000;
    await object.ring();
    Date.now = realNow;
    return { objectState: await object.getState(), mine: await object.sql("SELECT * FROM mine") };
  },

  /** Consumes from secret, long and odd keys. */
  async storedKeys({ OBJECTS }) {
    const namespace = new FreshNamespace(OBJECTS);
    const secret = durableObjectRateLimiter(namespace, tokenBucket("2/h"), { shards: 1, secretKeys: true });
    const open = durableObjectRateLimiter(namespace, tokenBucket("3/h"), { shards: 1 });
    await secret.consume("api-key-123");
    await open.consume("{ada}");
    await open.consume("x".repeat(2 ** 20));
    const inspected = await open.inspect("{ada}");
    const rows = await namespace.object("shard:0").sql("SELECT bucket FROM sluice_buckets_1");
    const perKey = new FreshNamespace(OBJECTS);
    await durableObjectRateLimiter(perKey, tokenBucket("3/h"), { shards: "per-key", secretKeys: true }).consume(
      "api-key-123",
    );
    return { rows: rows.map(({ bucket }) => String(bucket)), inspected, names: [...perKey.names] };
  },
};
