/** What the tests of Durable Objects do inside of workerd. */
import { DurableObject } from "cloudflare:workers";
import {
  type Charge,
  combine,
  consumeAll,
  createLimiter,
  type Decision,
  type LimiterEvent,
  type Mode,
  memoryStore,
  type Policy,
  type RateLimiter,
  type Store,
  slidingLog,
  tokenBucket,
} from "sluice";
import { algorithms, compilePolicy } from "sluice/algorithms";
import {
  type DurableObjectNamespaceLike,
  type DurableObjectStoreOptions,
  durableObjectRateLimiter,
  durableObjectStore,
  kvRateLimiter,
  RateLimiterDO,
} from "sluice/cloudflare";
import { describeRateLimiter, storeSuite } from "sluice/testing";
import { rateLimiterObject } from "../../src/stores/cloudflare/durable-object/object/rate-limiter-do.ts";
import type { ApplyCall } from "../../src/stores/cloudflare/durable-object/wire/calls.ts";
import type { ApplyReply, WireDecision } from "../../src/stores/cloudflare/durable-object/wire/replies.ts";
import { PlanBounds, planBatches, planPair } from "../../src/testing/plan-walk.ts";
import { randomFrom } from "../../src/testing/random.ts";
import { failuresOf } from "../collect.ts";
import { addStrikeLog } from "../list-state/strike-log.ts";
import { randomSample, seededRandom } from "../model-walk.ts";
import { errorOf, workerOf } from "./tasks.ts";

// A test-only algorithm with list state, beside those of the package.
addStrikeLog(algorithms);

interface Env {
  OBJECTS: DurableObjectNamespaceLike;
  SLOPPY: DurableObjectNamespaceLike;
  BILLED: DurableObjectNamespaceLike;
}

/** What a test may know of an object. */
interface Look {
  rows: number;
  alarm: number | null;
  tables: string[];
  /** Another number for every instance: memory is lost between two that differ. */
  born: number;
}

/** The class under test, and a look into what it keeps. */
export class Objects extends RateLimiterDO {
  declare ctx: {
    abort(reason: string): never;
    storage: {
      sql: { exec(query: string, ...values: unknown[]): { toArray(): Record<string, unknown>[] } };
      getAlarm(): Promise<number | null>;
      setAlarm(time: number): Promise<void>;
    };
  };
  born: number = Math.random();
  alarms = 0;

  /** Loses all memory, as when Cloudflare moves it. */
  async crash(): Promise<void> {
    this.ctx.abort("a test wants it");
  }

  async look(): Promise<Look> {
    const { sql } = this.ctx.storage;
    const tables = sql
      .exec("SELECT name FROM sqlite_master WHERE type = 'table'")
      .toArray()
      .map(({ name }) => String(name));
    const buckets = tables.find((name) => name === "sluice_buckets_1");
    const rows = buckets ? Number(sql.exec(`SELECT count(*) AS n FROM ${buckets}`).toArray()[0]?.n) : 0;
    return { rows, alarm: await this.ctx.storage.getAlarm(), tables, born: this.born };
  }

  async sql(query: string, ...values: unknown[]): Promise<Record<string, unknown>[]> {
    return this.ctx.storage.sql.exec(query, ...values).toArray();
  }

  /** The alarm goes off now, and not when it is due. */
  async ring(): Promise<void> {
    await this.alarm();
  }
}

/** The class without its platform. */
const Plain = rateLimiterObject(Object);

/** What the class does, with the rows counted that Cloudflare bills for. */
export class Billed extends DurableObject {
  private readonly inner: InstanceType<typeof Plain>;
  private readonly bill = { read: 0, written: 0 };

  constructor(ctx: never, env: never) {
    super(ctx, env);
    const { storage } = ctx as { storage: ConstructorParameters<typeof Plain>[0]["storage"] };
    const { bill } = this;
    const exec = (query: string, ...values: (string | number)[]) => {
      const rows = storage.sql.exec(query, ...values) as unknown as {
        toArray(): Record<string, unknown>[];
        rowsRead: number;
        rowsWritten: number;
      };
      const found = rows.toArray();
      bill.read += rows.rowsRead;
      bill.written += rows.rowsWritten;
      return Object.assign(found, { toArray: () => found });
    };
    const counted = {
      sql: { exec },
      transactionSync: <T>(closure: () => T) => storage.transactionSync(closure),
      getAlarm: () => storage.getAlarm(),
      setAlarm: (time: number) => storage.setAlarm(time),
      deleteAlarm: () => storage.deleteAlarm(),
      deleteAll: () => storage.deleteAll(),
    };
    this.inner = new Plain({ storage: counted, blockConcurrencyWhile: (run) => run() }, env);
  }

  apply(call: never): Promise<unknown> {
    return this.inner.apply(call);
  }

  /** Objects that set an alarm need a handler. */
  override alarm(): Promise<void> {
    return this.inner.alarm();
  }

  /** The rows since the last time. */
  async billed(): Promise<{ read: number; written: number }> {
    const { read, written } = this.bill;
    Object.assign(this.bill, { read: 0, written: 0 });
    return { read, written };
  }
}

/** The planted fault: it waits for something else between reading and writing. */
export class Sloppy extends DurableObject {
  async apply({ version, groups }: ApplyCall): Promise<ApplyReply> {
    const decided: WireDecision[][] = [];
    for (const _ of groups) {
      const used = (await this.ctx.storage.get<number>("used")) ?? 0;
      await scheduler.wait(5);
      if (used < 50) await this.ctx.storage.put("used", used + 1);
      decided.push([used < 50 ? [1, 49 - used, 1000, 1000, 0] : [0, 0, 1000, 1000, 1000]]);
    }
    return { version, now: Date.now(), groups: decided };
  }
}

declare const scheduler: { wait(ms: number): Promise<void> };

/** A namespace with objects that nobody has used before, and a way to their insides. */
class Fresh implements DurableObjectNamespaceLike {
  readonly names: Set<string> = new Set();
  /** How many stubs were asked for: one for every call. */
  calls = 0;
  private readonly namespace: DurableObjectNamespaceLike;
  private readonly prefix: string;

  constructor(namespace: DurableObjectNamespaceLike, prefix = `${crypto.randomUUID()}:`) {
    this.namespace = namespace;
    this.prefix = prefix;
  }

  idFromName(name: string): object {
    this.names.add(name);
    return this.namespace.idFromName(this.prefix + name);
  }

  get(id: never): object {
    this.calls++;
    return this.namespace.get(id);
  }

  object(name: string): Objects {
    return this.namespace.get(this.namespace.idFromName(this.prefix + name) as never) as Objects;
  }

  async crash(): Promise<void> {
    for (const name of this.names)
      await this.object(name)
        .crash()
        .catch(() => {});
  }
}

/** Moves the clock of this isolate, which its objects share. Beyond all real alarms, so that none goes off. */
const { now: realNow } = Date;
let fakeNow = 0;
function fakeTime(): (ms: number) => void {
  fakeNow = realNow() + 10 * 365 * 86_400_000;
  Date.now = () => fakeNow;
  return (ms) => {
    fakeNow += ms;
  };
}

function burst(limiter: RateLimiter, count: number, key = "k"): Promise<Decision[]> {
  return Promise.all(Array.from({ length: count }, () => limiter.consume(key)));
}

function admitted(decisions: readonly Decision[]): number {
  return decisions.filter(({ allowed }) => allowed).length;
}

const FIFTY = tokenBucket({ capacity: 50, tokensPerSecond: "50/1h" });
type Shards = NonNullable<DurableObjectStoreOptions["shards"]>;
type AlgorithmName = Parameters<typeof randomSample>[0];

export default workerOf<Env>({
  /** The contract kit, with a clock that can be moved and objects that are lost. */
  async kit({ OBJECTS }, { algorithm, shards }: { algorithm: AlgorithmName; shards: Shards }) {
    const advance = fakeTime();
    let cases = 0;
    const create = () => {
      const namespace = new Fresh(OBJECTS);
      const open = () => durableObjectStore(namespace, { shards });
      const restart = async () => {
        await namespace.crash();
        return open();
      };
      return { store: open(), advance, restart };
    };
    const failures = await failuresOf(({ describe, it }) => {
      const counted = (name: string, body: () => Promise<void>) => {
        cases++;
        it(name, body);
      };
      const options = { algorithms: [algorithm], time: "fake", restart: true, describe, it: counted } as const;
      if (shards !== "per-key") return storeSuite("Durable Objects", create, options);
      // No group can name two keys there, which the suite of stores does.
      describeRateLimiter(
        "Durable Objects, one for each key",
        (policy: Policy) => {
          const { store, restart } = create();
          const on = (store: Store): RateLimiter => createLimiter({ policy, store, localDenialMs: 0 });
          return { limiter: on(store), advance, restart: async () => on(await restart()) };
        },
        options,
      );
    });
    Date.now = realNow;
    return { cases, failures };
  },

  /** Random steps on objects and in memory alike, in several places at once; objects are lost on the way. */
  async walk({ OBJECTS }, { algorithm, steps, seed }: { algorithm: AlgorithmName; steps: number; seed: number }) {
    const advance = fakeTime();
    const random = seededRandom(seed);
    const upTo = (most: number) => Math.floor(random() * (most + 1));
    let [done, crashes, allowed] = [0, 0, 0];
    const place = () => {
      const namespace = new Fresh(OBJECTS);
      const objects = durableObjectStore(namespace, { shards: 4 });
      const memory = memoryStore({ clock: { now: () => Date.now() } });
      const policy = ["p", "q"].map((name) => compilePolicy({ ...randomSample(algorithm, random).policy, name }));
      return async () => {
        const key = `key ${upTo(5)}`;
        const mode = (["take", "take", "take", "take", "peek", "refund"] as Mode[])[upTo(5)] as Mode;
        const charges = policy.slice(0, random() < 0.3 ? 2 : 1).map((policy) => {
          const cost = [0, 1, 1, 2, upTo(policy.limit), policy.limit + 1][upTo(5)] as number;
          return { policy, key, cost, mode };
        });
        if (random() < 0.02) {
          await namespace.crash();
          crashes++;
        }
        const [[there], [here]] = await Promise.all([objects.apply([charges]), memory.apply([charges])]);
        done++;
        if (there?.[0]?.allowed) allowed++;
        if (JSON.stringify(there) === JSON.stringify(here)) return;
        throw new Error(`seed ${seed} step ${done}: ${JSON.stringify({ charges, there, here })}`);
      };
    };
    while (done < steps) {
      const places = Array.from({ length: 20 }, place);
      for (let i = 0; i < 100 && done < steps; i++) {
        // A full bucket may be forgotten or not, and a clock that steps back must not find out: so it goes on here.
        advance(random() < 0.4 ? 0 : upTo([3, 100, 5000][upTo(2)] as number));
        await Promise.all(places.map((step) => step()));
      }
    }
    Date.now = realNow;
    return { done, crashes, allowed };
  },

  /** Two plans that share their buckets, interleaved at random: as in memory, and within the bound of each. */
  async plans({ OBJECTS }, { algorithm, steps, seed }: { algorithm: AlgorithmName; steps: number; seed: number }) {
    const advance = fakeTime();
    const random = randomFrom(seed);
    let [done, allowed] = [0, 0];
    while (done < steps) {
      const objects = durableObjectStore(new Fresh(OBJECTS), { shards: 4 });
      const memory = memoryStore({ clock: { now: () => Date.now() } });
      const plans = planPair(algorithm, random);
      const bounds = new PlanBounds(plans);
      for (const { advanceMs, groups } of planBatches(plans, random, 400)) {
        advance(advanceMs);
        const [there, here] = await Promise.all([objects.apply(groups), memory.apply(groups)]);
        if (JSON.stringify(there) !== JSON.stringify(here)) {
          throw new Error(`seed ${seed} step ${done}: ${JSON.stringify({ groups, there, here })}`);
        }
        for (const [i, [charge]] of groups.entries()) {
          bounds.record(charge as Charge, there[i]?.[0] as Decision, Date.now());
          if (there[i]?.[0]?.allowed) allowed++;
        }
        done += groups.length;
      }
    }
    Date.now = realNow;
    return { done, allowed };
  },

  /** So many at once, on fifty. */
  async burst({ OBJECTS, SLOPPY }, { shards, calls, on }: { shards: Shards; calls: "one" | "many"; on?: "sloppy" }) {
    const namespace = new Fresh(on === "sloppy" ? SLOPPY : OBJECTS);
    const limiter = () =>
      createLimiter({ policy: FIFTY, store: durableObjectStore(namespace, { shards }), localDenialMs: 0 });
    // A store for each of them shares no call with another.
    const limiters = Array.from({ length: calls === "one" ? 1 : 200 }, limiter);
    const decisions = await Promise.all(
      Array.from({ length: 200 }, (_, i) => (limiters[i % limiters.length] as RateLimiter).consume("k")),
    );
    return {
      admitted: admitted(decisions),
      calls: namespace.calls,
      remaining: Math.min(...decisions.map(({ remaining }) => remaining)),
    };
  },

  /** One request of many that come over HTTP. */
  async hit({ OBJECTS }, { shards, run }: { shards: Shards; run: string }) {
    const namespace = new Fresh(OBJECTS, `${run}:`);
    return durableObjectRateLimiter(namespace, FIFTY, { shards, localDenialMs: 0 }).consume("k");
  },

  /** What a few keys have spent, and what their object keeps. */
  async spend({ OBJECTS }, { run, count, keys = ["k"] }: { run: string; count: number; keys?: string[] }) {
    const namespace = new Fresh(OBJECTS, `${run}:`);
    const limiter = durableObjectRateLimiter(namespace, FIFTY, { shards: 1, localDenialMs: 0 });
    const decisions = (await Promise.all(keys.map((key) => burst(limiter, count, key)))).flat();
    return { admitted: admitted(decisions), look: await namespace.object("shard:0").look() };
  },

  /** Many buckets that fill soon, and some that do not. */
  async fill({ OBJECTS }, { run, short, long }: { run: string; short: number; long: number }) {
    const namespace = new Fresh(OBJECTS, `${run}:`);
    const store = durableObjectStore(namespace, { shards: 1 });
    const soon = createLimiter({ policy: tokenBucket({ capacity: 1, tokensPerSecond: 10 }), store });
    const late = createLimiter({ policy: tokenBucket({ capacity: 1, tokensPerSecond: "1/1h" }), store });
    const spend = (limiter: RateLimiter, count: number) =>
      Promise.all(Array.from({ length: count }, (_, i) => limiter.consume(`key ${i}`)));
    const decisions = [...(await spend(soon, short)), ...(await spend(late, long))];
    return { admitted: admitted(decisions), look: await namespace.object("shard:0").look(), now: realNow() };
  },

  async look({ OBJECTS }, { run }: { run: string }) {
    return new Fresh(OBJECTS, `${run}:`).object("shard:0").look();
  },

  /** Grants that come while an empty object gives up its storage. */
  async vanishing({ OBJECTS }, { rounds }: { rounds: number }) {
    const advance = fakeTime();
    const lost: unknown[] = [];
    for (let i = 0; i < rounds; i++) {
      const namespace = new Fresh(OBJECTS);
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

  /** Long buckets are let go by moving the clock, and then the alarm. */
  async forget({ OBJECTS }, { run, ms }: { run: string; ms: number }) {
    const object = new Fresh(OBJECTS, `${run}:`).object("shard:0");
    Date.now = () => realNow() + ms;
    await object.ring();
    Date.now = realNow;
    return object.look();
  },

  /** What a call writes: rows of the billing. */
  async writes({ OBJECTS }) {
    const namespace = new Fresh(OBJECTS);
    const limiter = durableObjectRateLimiter(namespace, tokenBucket({ capacity: 2, tokensPerSecond: "1/1h" }), {
      shards: 1,
      localDenialMs: 0,
    });
    const object = namespace.object("shard:0");
    const rows = async () => JSON.stringify(await object.sql("SELECT * FROM sluice_buckets_1"));
    const before = (await object.look()).tables;
    await limiter.peek("k");
    await limiter.consume("k", 3);
    await limiter.refund("k", 1);
    await limiter.reset("k");
    const untouched = (await object.look()).tables;
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

  /** A bucket that is used long after its row was made, past the time that the row was first kept for. */
  async lasting({ OBJECTS }) {
    const advance = fakeTime();
    const namespace = new Fresh(OBJECTS);
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

  /** An alarm that was set by an instance that is gone. */
  async inherited({ OBJECTS }) {
    const namespace = new Fresh(OBJECTS);
    const spend = (policy: Policy) => durableObjectRateLimiter(namespace, policy, { shards: 1 }).consume("k");
    await spend(tokenBucket({ capacity: 1, tokensPerSecond: 1 }));
    const { alarm: before } = await namespace.object("shard:0").look();
    await namespace.crash();
    await spend(tokenBucket({ capacity: 1, tokensPerSecond: "1/1h" }));
    const { alarm: after } = await namespace.object("shard:0").look();
    return { before, after };
  },

  /** A write that fails in the middle of a group. */
  async poison({ OBJECTS }) {
    const namespace = new Fresh(OBJECTS);
    const store = durableObjectStore(namespace, { shards: 1 });
    const limiter = createLimiter({ policy: FIFTY, store, onStoreError: "throw", localDenialMs: 0 });
    await limiter.consume("k");
    await namespace
      .object("shard:0")
      .sql(
        "CREATE TRIGGER poison BEFORE INSERT ON sluice_buckets_1 WHEN NEW.bucket LIKE '%poison%' BEGIN SELECT RAISE(ABORT, 'poisoned'); END",
      );
    const error = await errorOf(() =>
      consumeAll([
        { limiter, key: "k", cost: 10 },
        { limiter, key: "poison", cost: 10 },
      ]),
    );
    const left = (await limiter.peek("k", 0)).remaining;
    await namespace.crash();
    return { error, left, stored: (await limiter.peek("k", 0)).remaining };
  },

  /** More buckets than memory holds, and more that expire than go at once. */
  async crowd({ OBJECTS }, { keys }: { keys: number }) {
    const advance = fakeTime();
    const namespace = new Fresh(OBJECTS);
    const limiter = durableObjectRateLimiter(namespace, tokenBucket({ capacity: 2, tokensPerSecond: "2/1h" }), {
      shards: 1,
      localDenialMs: 0,
      deadlineMs: "1m",
    });
    const all = Array.from({ length: keys }, (_, i) => `key ${i}`);
    const spend = async () => admitted(await Promise.all(all.map((key) => limiter.consume(key))));
    const rounds = [await spend(), await spend(), await spend()];
    const { rows } = await namespace.object("shard:0").look();
    advance(3 * 3_600_000);
    const left: number[] = [];
    for (let i = 0; i < 3; i++) {
      await namespace.object("shard:0").ring();
      left.push((await namespace.object("shard:0").look()).rows);
    }
    Date.now = realNow;
    return { rounds, rows, left };
  },

  /** What Cloudflare bills for: rows read and written. */
  async bill({ BILLED }) {
    const namespace = new Fresh(BILLED);
    const limiter = durableObjectRateLimiter(namespace, tokenBucket({ capacity: 1000, tokensPerSecond: 1 }), {
      shards: 1,
      localDenialMs: 0,
    });
    const object = namespace.object("shard:0") as unknown as Billed;
    const spent: Record<string, { read: number; written: number }> = {};
    const during = async (what: string, calls: () => Promise<unknown>) => {
      await object.billed();
      await calls();
      spent[what] = await object.billed();
    };
    await limiter.consume("somebody else");
    await during("the first grant of a key", () => limiter.consume("k"));
    await during("99 grants more, one by one", async () => {
      for (let i = 0; i < 99; i++) await limiter.consume("k");
    });
    await during("100 grants at once", () => burst(limiter, 100));
    await limiter.consume("k", 800);
    await during("100 denials", () => burst(limiter, 100));
    return spent;
  },

  /** Rows and tables of other versions, and rows that are spoilt. */
  async versions({ OBJECTS }) {
    const namespace = new Fresh(OBJECTS);
    // A stub of an object that was lost is of no use any more.
    const object = () => namespace.object("shard:0");
    const policies = [tokenBucket("2/h"), slidingLog("2/h")];
    const limiters = policies.map((policy) =>
      durableObjectRateLimiter(namespace, policy, { shards: 1, localDenialMs: 0, onStoreError: "throw" }),
    );
    for (const limiter of limiters) await limiter.consume("k", 2);
    const answers: unknown[] = [];
    for (const spoilt of ["", "garbage", "1", "1,2,3,4,5,6", "-1,-1", "1e3,2", "9".repeat(30), "NaN,NaN", "3,1,1"]) {
      await object().sql("UPDATE sluice_buckets_1 SET state = ?", spoilt);
      await namespace.crash();
      for (const limiter of limiters) answers.push((await limiter.consume("k", 2)).allowed);
    }
    await object().sql("CREATE TABLE sluice_buckets_0 (other TEXT)");
    await object().sql("CREATE TABLE sluice_buckets_2 (later TEXT)");
    await namespace.crash();
    for (const limiter of limiters) answers.push((await limiter.consume("k", 2)).allowed);
    return { answers, tables: (await object().look()).tables };
  },

  /** A class of a user's own that keeps something beside the buckets. */
  async neighbours({ OBJECTS }) {
    const namespace = new Fresh(OBJECTS);
    const limiter = durableObjectRateLimiter(namespace, tokenBucket("2/h"), { shards: 1 });
    const object = namespace.object("shard:0");
    await object.sql("CREATE TABLE mine (kept TEXT)");
    await object.sql("INSERT INTO mine VALUES ('still here')");
    await limiter.consume("k");
    Date.now = () => realNow() + 3 * 3_600_000;
    await object.ring();
    Date.now = realNow;
    return { look: await object.look(), mine: await object.sql("SELECT * FROM mine") };
  },

  /** Several limits in one call, and over several objects. */
  async together({ OBJECTS }) {
    const namespace = new Fresh(OBJECTS);
    const make = (policy: Policy) => durableObjectRateLimiter(namespace, policy, { localDenialMs: 0 });
    const [burst, daily, address] = [tokenBucket("5/h"), tokenBucket("20/d"), tokenBucket("3/m")].map(make) as [
      RateLimiter,
      RateLimiter,
      RateLimiter,
    ];
    const both = combine([burst, daily]);
    const before = namespace.calls;
    const joint = await Promise.all(Array.from({ length: 30 }, () => both.consume("user")));
    const calls = namespace.calls - before;
    const store = durableObjectStore(namespace);
    // Two keys that live in different objects.
    let other = 0;
    while (store.shardOf(`address ${other}`) === store.shardOf("guest")) other++;
    const apart: Decision[] = [];
    for (let i = 0; i < 6; i++) {
      apart.push(
        await consumeAll([
          { limiter: burst, key: "guest" },
          { limiter: address, key: `address ${other}` },
        ]),
      );
    }
    const left = (await burst.peek("guest", 0)).remaining;
    return {
      admitted: admitted(joint),
      calls,
      daily: (await daily.peek("user", 0)).remaining,
      apart: admitted(apart),
      left,
    };
  },

  /** A denied key is not asked about again for a while; whoever makes a limiter for every request has the same. */
  async denials({ OBJECTS }) {
    const namespace = new Fresh(OBJECTS);
    const limiter = () => durableObjectRateLimiter(namespace, tokenBucket("2/h"), { shards: 1 });
    await limiter().consume("k", 2);
    await limiter().consume("k");
    const { calls } = namespace;
    const denied = admitted(await Promise.all(Array.from({ length: 500 }, () => limiter().consume("k")))) === 0;
    return { denied, calls: namespace.calls - calls };
  },

  /** One object fails, and the others do not. */
  async oneFails({ OBJECTS }) {
    const broken = `key:attacker`;
    const namespace = {
      idFromName: (name: string) => ({ name, id: OBJECTS.idFromName(`one fails:${name}`) }),
      get: ({ name, id }: { name: string; id: never }) =>
        name === broken ? { apply: () => Promise.reject(new Error("overloaded")) } : OBJECTS.get(id),
    } as unknown as DurableObjectNamespaceLike;
    const events: LimiterEvent["type"][] = [];
    const limiter = durableObjectRateLimiter(namespace, tokenBucket("3/h"), {
      shards: "per-key",
      onEvent: ({ type }) => events.push(type),
    });
    // One call that fails is one fault, however many it was for.
    const first = await burst(limiter, 50, "attacker");
    const afterOne = [...events];
    for (let i = 0; i < 10; i++) await limiter.consume("attacker");
    const others = await Promise.all(Array.from({ length: 100 }, (_, i) => limiter.consume(`key ${i}`)));
    return {
      degraded: first.filter(({ degraded }) => degraded).length,
      afterOne,
      events,
      others: others.filter(({ degraded, allowed }) => allowed && !degraded).length,
    };
  },

  /** What nobody waits for any more is not sent. */
  async unwanted({ OBJECTS }) {
    const namespace = new Fresh(OBJECTS);
    const store = durableObjectStore(namespace, { shards: 1 });
    const policy = compilePolicy(FIFTY);
    void store.apply([[{ policy, key: "k", cost: 1, mode: "take" }]], { abandoned: true });
    const [[decision] = []] = await store.apply([[{ policy, key: "k", cost: 1, mode: "take" }]], { abandoned: false });
    return decision?.remaining;
  },

  /** Objects that fail, hang or are gone. */
  async faults({ OBJECTS }) {
    const events: LimiterEvent["type"][] = [];
    const onEvent = ({ type }: LimiterEvent) => events.push(type);
    const broken = {
      idFromName: (name: string) => OBJECTS.idFromName(name),
      get: () => ({ apply: async () => Promise.reject(new Error("Network connection lost.")) }),
    };
    const policy = tokenBucket("3/h");
    const local = createLimiter({ policy, store: durableObjectStore(broken), onEvent });
    // What a call fails for many is one fault, so that they come one by one.
    const degraded: Decision[] = [];
    for (let i = 0; i < 10; i++) degraded.push(await local.consume("k"));
    const closed = await createLimiter({ policy, store: durableObjectStore(broken), onStoreError: "closed" }).consume(
      "k",
    );
    const hanging = { ...broken, get: () => ({ apply: () => new Promise(() => {}) }) };
    const start = performance.now();
    const late = await createLimiter({ policy, store: durableObjectStore(hanging), deadlineMs: 100 }).consume("k");
    const waited = performance.now() - start;
    // Two that are asked in one tick, and wait for different times.
    const patient = createLimiter({ policy, store: durableObjectStore(hanging), deadlineMs: 2000 });
    const hurried = createLimiter({ policy, store: (patient as unknown as { store: Store }).store, deadlineMs: 50 });
    const began = performance.now();
    const both = Promise.all([patient.consume("k"), hurried.consume("k").then(() => performance.now() - began)]);
    const [, hurry] = await both;
    const patience = performance.now() - began;
    // The real thing: an object that is lost while it is called, and is there again for the next call.
    const namespace = new Fresh(OBJECTS);
    const limiter = durableObjectRateLimiter(namespace, policy, { shards: 1, onStoreError: "throw", localDenialMs: 0 });
    const first = await limiter.consume("k");
    const [, lost] = await Promise.all([namespace.crash(), errorOf(() => limiter.consume("k"))]);
    const after = await limiter.consume("k", 0);
    return {
      admitted: admitted(degraded),
      marked: degraded.every(({ degraded }) => degraded),
      events,
      closed,
      late: late.degraded,
      waited,
      hurry,
      patience,
      first: first.remaining,
      lost,
      after: after.remaining,
    };
  },

  /** What is not right, said to the store and to the object. */
  async input({ OBJECTS, SLOPPY }) {
    const namespace = new Fresh(OBJECTS);
    const limiter = durableObjectRateLimiter(namespace, tokenBucket("2/h"), { shards: 1 });
    await limiter.consume("k");
    const object = namespace.object("shard:0") as unknown as Record<string, (call: unknown) => Promise<unknown>>;
    const rows = async () => JSON.stringify(await namespace.object("shard:0").sql("SELECT * FROM sluice_buckets_1"));
    const before = await rows();
    const policy = { algorithm: "token-bucket", capacity: 2, tokensPerSecond: "1/1800000ms" };
    const charge = { policy: 0, bucket: "s1:{k}b2/h,2", cost: 1, mode: "take" };
    const call = { version: 3, policies: [policy], groups: [[charge]] };
    const withCharge = (changes: object) => ({ ...call, groups: [[charge], [{ ...charge, ...changes }]] });
    const withPolicy = (changes: object) => ({ ...call, policies: [{ ...policy, ...changes }] });
    const calls: Record<string, unknown> = {
      undefined: undefined,
      "a string": "apply",
      "another version": { ...call, version: 2 },
      "no version": { policies: [policy], groups: [[charge]] },
      "no policies": { version: 3, groups: [[charge]] },
      "no groups": { version: 3, policies: [policy] },
      "a charge of version 2": { ...call, groups: [[[0, "s1:{k}b2/h,2", 1, "take"]]] },
      "a charge that is null": { ...call, groups: [[null]] },
      "a sparse group": { ...call, groups: [new Array(2)] },
      "a cost that is a string": withCharge({ cost: "1" }),
      "a cost below 0": withCharge({ cost: -5 }),
      "a cost that is NaN": withCharge({ cost: Number.NaN }),
      "an empty bucket": withCharge({ bucket: "" }),
      "a bucket of a megabyte": withCharge({ bucket: "k".repeat(2 ** 20) }),
      "an unknown mode": withCharge({ mode: "steal" }),
      "a policy that does not exist": withCharge({ policy: 7 }),
      "a grant end that is not a time": withCharge({ mode: "refund", grantEndsAt: "now" }),
      "the same bucket twice": { ...call, groups: [[charge, charge]] },
      "seventeen charges": {
        ...call,
        groups: [Array.from({ length: 17 }, (_, i) => ({ ...charge, bucket: `b${i}` }))],
      },
      "2000 charges": { ...call, groups: Array.from({ length: 2000 }, () => [charge]) },
      "a capacity of NaN": withPolicy({ capacity: Number.NaN }),
      "a capacity that is a string": withPolicy({ capacity: "2" }),
      "a rate of 0": withPolicy({ tokensPerSecond: 0 }),
      "a policy of __proto__": { ...call, policies: [{ algorithm: "__proto__" }] },
      "an unknown option": withPolicy({ unlimited: true }),
    };
    const byRpc: Record<string, string> = {};
    for (const [name, call] of Object.entries(calls)) byRpc[name] = await errorOf(() => object.apply?.(call));
    const methods: Record<string, string> = {};
    for (const method of ["take", "loadAlarm", "deleteExpired", "write", "constructor", "storage", "fetch"]) {
      methods[method] = await errorOf(() => object[method]?.({}));
    }
    const store = {
      nothing: await errorOf(() => durableObjectStore(undefined as never)),
      aNumber: await errorOf(() => durableObjectStore(7 as never)),
      shards0: await errorOf(() => durableObjectStore(namespace, { shards: 0 })),
      shardsHalf: await errorOf(() => durableObjectStore(namespace, { shards: 1.5 })),
      shardsText: await errorOf(() => durableObjectStore(namespace, { shards: "per key" as never })),
      unknown: await errorOf(() => durableObjectStore(namespace, { shard: 4 } as never)),
      cost: await errorOf(() => limiter.consume("k", "1" as never)),
      key: await errorOf(() => limiter.consume("")),
      anotherClass: await errorOf(() => durableObjectRateLimiter(SLOPPY, tokenBucket("2/h")).inspect("k")),
      anotherKind: await errorOf(() => kvRateLimiter(namespace as never, slidingLog("2/h"))),
    };
    return { byRpc, methods, store, unchanged: before === (await rows()) };
  },

  /** A stub without RPC, and an object that replies with another version of the protocol. */
  async incompatible({ OBJECTS }) {
    const errorWith = (stub: object) => {
      const namespace = { idFromName: (name: string) => OBJECTS.idFromName(name), get: () => stub };
      const limiter = durableObjectRateLimiter(namespace, tokenBucket("2/h"), { onStoreError: "throw" });
      return Promise.all([errorOf(() => limiter.consume("k")), errorOf(() => limiter.inspect("k"))]);
    };
    const reply = { now: Date.now(), groups: [[[1, 1, 0, 0, 0]]], decision: [1, 1, 0, 0, 0], raw: null, ttlMs: null };
    return {
      withoutRpc: await errorWith({ fetch: async () => new Response() }),
      anotherVersion: await errorWith({
        apply: async () => ({ ...reply, version: 4 }),
        inspect: async () => ({ ...reply, version: 4 }),
      }),
      noVersion: await errorWith({ apply: async () => reply, inspect: async () => undefined }),
    };
  },

  /** Calls an object with the stub of this runtime. */
  async error({ OBJECTS }) {
    return errorOf(() => durableObjectRateLimiter(new Fresh(OBJECTS), tokenBucket("2/h")).consume("k"));
  },

  /** Keys that have something to hide, or are long. */
  async keys({ OBJECTS }) {
    const namespace = new Fresh(OBJECTS);
    const secret = durableObjectRateLimiter(namespace, tokenBucket("2/h"), { shards: 1, secretKeys: true });
    const open = durableObjectRateLimiter(namespace, tokenBucket("3/h"), { shards: 1 });
    await secret.consume("api-key-123");
    await open.consume("{ada}");
    await open.consume("x".repeat(2 ** 20));
    const inspected = await open.inspect("{ada}");
    const rows = await namespace.object("shard:0").sql("SELECT bucket FROM sluice_buckets_1");
    const perKey = new Fresh(OBJECTS);
    await durableObjectRateLimiter(perKey, tokenBucket("3/h"), { shards: "per-key", secretKeys: true }).consume(
      "api-key-123",
    );
    return { rows: rows.map(({ bucket }) => String(bucket)), inspected, names: [...perKey.names] };
  },
});
