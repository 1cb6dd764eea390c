/** The Worker of the tests of `IdempotencyDO`. It runs inside workerd. */
import { type DurableObjectNamespaceLike, durableObjectIdempotencyStore, IdempotencyDO } from "sluice/cloudflare";
import { idempotent, rateLimit } from "sluice/fetch";
import type { IdempotencyClaim, IdempotencyStore } from "sluice/idempotency";
import { idempotencySuite } from "sluice/testing";
import { FreshNamespace, fakeTime, realNow } from "../cloudflare/objects/namespace.ts";
import { errorOf, type Tasks, workerOf } from "../cloudflare/tasks.ts";
import { failuresOf } from "../collect.ts";

interface Env {
  OBJECTS: DurableObjectNamespaceLike;
}

/** The state of an object. */
interface ObjectState {
  rows: { name: string; value: string; expires_at: number }[];
  alarm: number | null;
  tables: string[];
}

/** The class under test, with methods to inspect and crash it. */
export class Entries extends IdempotencyDO {
  declare ctx: {
    abort(reason: string): never;
    storage: {
      sql: { exec(query: string, ...values: unknown[]): { toArray(): Record<string, unknown>[] } };
      getAlarm(): Promise<number | null>;
    };
  };

  /** Restarts the object without its memory, as when Cloudflare moves it. */
  async crash(): Promise<void> {
    this.ctx.abort("crashed by a test");
  }

  async getState(): Promise<ObjectState> {
    const { sql } = this.ctx.storage;
    const tables = sql
      .exec("SELECT name FROM sqlite_master WHERE type = 'table'")
      .toArray()
      .map(({ name }) => String(name));
    const hasRows = tables.includes("sluice_idempotency_1");
    const rows = hasRows ? sql.exec("SELECT * FROM sluice_idempotency_1 ORDER BY name").toArray() : [];
    return { rows: rows as unknown as ObjectState["rows"], alarm: await this.ctx.storage.getAlarm(), tables };
  }

  async sql(query: string, ...values: unknown[]): Promise<Record<string, unknown>[]> {
    return this.ctx.storage.sql.exec(query, ...values).toArray();
  }

  /** Runs the alarm before it is due. */
  async ring(): Promise<void> {
    await this.alarm();
  }
}

const claim: IdempotencyClaim = {
  ...{ scope: "user 7", key: "k", fingerprint: "f1" },
  ...{ owner: "o1", leaseMs: 30_000, ttlMs: 3_600_000 },
};
const response = { status: 201, headers: { location: "/orders/42" }, body: new TextEncoder().encode('{"id":42}') };

/** The only object of a namespace. */
function objectOf(namespace: FreshNamespace): Entries {
  const [name = ""] = namespace.names;
  return namespace.object(name) as unknown as Entries;
}

/** Restarts all objects before every call. One call at a time, because a restart fails calls in flight. */
function crashing(store: IdempotencyStore, namespace: FreshNamespace): IdempotencyStore {
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(call: () => Promise<T>): Promise<T> => {
    const result = last.then(() => namespace.crash()).then(call);
    last = result.catch(() => {});
    return result;
  };
  return {
    begin: (claim) => inTurn(() => store.begin(claim)),
    read: (...args) => inTurn(() => store.read(...args)),
    renew: (...args) => inTurn(() => store.renew(...args)),
    complete: (...args) => inTurn(() => store.complete(...args)),
    release: (...args) => inTurn(() => store.release(...args)),
  };
}

/** Payment handlers by their `wait`. */
const payments: Record<string, ReturnType<typeof paymentsWith>> = {};

function paymentsWith(objects: DurableObjectNamespaceLike, wait: 0 | "5s") {
  const counts = { runs: 0, tokens: 0 };
  const limited = rateLimit({
    policy: "1000/m",
    key: () => "ada",
    onDecision: ({ decision }) => void (counts.tokens += decision.allowed ? 1 : 0),
  })(async () => {
    counts.runs++;
    await new Promise((resolve) => setTimeout(resolve, 300));
    return Response.json({ id: crypto.randomUUID() }, { status: 201 });
  });
  const store = durableObjectIdempotencyStore(objects);
  const scope = (request: Request) => request.headers.get("x-user") ?? undefined;
  return { counts, pay: idempotent({ store, scope, wait, deadlineMs: "20s", replayLimit: "1000/m" })(limited) };
}

const tasks: Tasks<Env> = {
  /** Runs the contract suite. With `crash`, objects restart before every call. */
  async suite({ OBJECTS }, { crash }: { crash: boolean }) {
    const advance = fakeTime();
    let cases = 0;
    const create = () => {
      const namespace = new FreshNamespace(OBJECTS);
      const store = durableObjectIdempotencyStore(namespace);
      return { store: crash ? crashing(store, namespace) : store, advance };
    };
    const failures = await failuresOf(({ describe, it }) => {
      const counted = (title: string, body: () => Promise<void>) => {
        cases++;
        it(title, body);
      };
      idempotencySuite("Durable Objects", create, { describe, it: counted, time: "fake" });
    });
    Date.now = realNow;
    return { cases, failures };
  },

  /** Sends a payment to a handler that takes a while, with `idempotent` around `rateLimit`. */
  async pay({ OBJECTS }, { key, wait }: { key: string; wait: 0 | "5s" }) {
    const handler = (payments[wait] ??= paymentsWith(OBJECTS, wait));
    const headers = { "Idempotency-Key": key, "X-User": "ada" };
    const response = await handler.pay(new Request("http://localhost/", { method: "POST", headers, body: "100" }));
    const isReplay = response.headers.has("Idempotent-Replayed");
    return { status: response.status, text: await response.text(), isReplay, ...handler.counts };
  },

  /** Begins one key in this request. */
  async begin({ OBJECTS }, { run, owner }: { run: string; owner: string }) {
    return durableObjectIdempotencyStore(new FreshNamespace(OBJECTS, run)).begin({ ...claim, owner });
  },

  /** Begins a key that expires at once, or returns the state of its object. */
  async shortLived({ OBJECTS }, { begin }: { begin: boolean }) {
    const namespace = new FreshNamespace(OBJECTS, "short-lived:");
    const store = durableObjectIdempotencyStore(namespace);
    if (begin) await store.begin({ ...claim, leaseMs: 1, ttlMs: 1 });
    else await store.release({ ...claim, key: "names the object" }, "o1");
    const { rows, alarm } = await objectOf(namespace).getState();
    return { rows: rows.length, hasAlarm: alarm !== null };
  },

  /** Returns the state of an object after each step. */
  async stored({ OBJECTS }) {
    const advance = fakeTime();
    const namespace = new FreshNamespace(OBJECTS);
    const store = durableObjectIdempotencyStore(namespace, { hmacSecret: "secret" });
    const states: unknown[] = [];
    const record = async () => {
      const { rows, alarm, tables } = await objectOf(namespace).getState();
      states.push({
        rows: rows.map(({ value }) => value.replace(/\d{13}/, "time")),
        // The alarm rings at most 5 s after the expiry of a row.
        alarmInTensOfSeconds: alarm && Math.floor((alarm - Date.now()) / 10_000),
        tables: tables.sort(),
      });
    };
    await store.renew(claim, "o1", 1000);
    await record();
    await store.begin(claim);
    await record();
    await store.complete(claim, "o1", response, 7_200_000);
    await record();
    advance(3_600_000 + 5000);
    await objectOf(namespace).ring();
    await record();
    advance(3_600_000);
    await objectOf(namespace).ring();
    await record();
    const again = await store.begin(claim);
    Date.now = realNow;
    return { names: [...namespace.names], states, again };
  },

  /** Deletes more rows than one alarm may. */
  async manyExpired({ OBJECTS }) {
    const advance = fakeTime();
    const namespace = new FreshNamespace(OBJECTS);
    const store = durableObjectIdempotencyStore(namespace);
    const keys = Array.from({ length: 1500 }, (_, i) => `k${i}`);
    await Promise.all(keys.map((key) => store.begin({ ...claim, key })));
    advance(3_600_000);
    await objectOf(namespace).ring();
    const { rows, alarm } = await objectOf(namespace).getState();
    const left = { rows: rows.length, hasAlarm: alarm !== null };
    await objectOf(namespace).ring();
    const { tables } = await objectOf(namespace).getState();
    Date.now = realNow;
    return { left, tables };
  },

  /** One object per scope. */
  async scopes({ OBJECTS }) {
    const namespace = new FreshNamespace(OBJECTS);
    const store = durableObjectIdempotencyStore(namespace);
    for (const scope of ["a", "b"]) for (const key of ["1", "2", "3"]) await store.begin({ ...claim, scope, key });
    return [...namespace.names];
  },

  /** Stores the largest response that is valid. */
  async largest({ OBJECTS }) {
    const store = durableObjectIdempotencyStore(new FreshNamespace(OBJECTS));
    const headers = { "x-large": "\u0001".repeat(65_000) };
    const largest = { status: 200, headers, body: new Uint8Array(2 ** 20).fill(0xff) };
    await store.begin(claim);
    const stored = await store.complete(claim, "o1", largest, 60_000);
    const replayed = await store.read(claim, claim.fingerprint);
    if (!replayed) return replayed;
    const { body } = replayed;
    return {
      stored,
      bytes: body?.length,
      same: body?.every((byte) => byte === 0xff),
      header: replayed.headers["x-large"] === headers["x-large"],
    };
  },

  /** Errors of calls that are invalid, damaged or sent to another class. */
  async errors({ OBJECTS }) {
    const namespace = new FreshNamespace(OBJECTS);
    const store = durableObjectIdempotencyStore(namespace);
    await store.begin(claim);
    const object = objectOf(namespace);
    const [{ name: entry } = { name: "" }] = (await object.getState()).rows;
    const valid = { version: 2, entry, owner: "o1" };
    const calls: [string, object][] = [
      ["begin", { ...valid, version: 1 }],
      ["begin", valid],
      ["begin", { ...valid, fingerprint: "f 1", leaseMs: 1, ttlMs: 1 }],
      ["begin", { ...valid, entry: "x", fingerprint: "f1", leaseMs: 1, ttlMs: 1 }],
      ["read", { ...valid, fingerprint: "f 1" }],
      ["renew", { ...valid, leaseMs: 0 }],
      ["complete", { ...valid, ttlMs: 1, response: 7 }],
      ["release", { ...valid, owner: "*" }],
    ];
    const errors: string[] = [];
    for (const [method, call] of calls) {
      errors.push(
        await errorOf(() => (object as unknown as Record<string, (call: object) => unknown>)[method]?.(call)),
      );
    }
    const before = (await object.getState()).rows;
    await object.sql("UPDATE sluice_idempotency_1 SET value = 'damaged'");
    const codes = await Promise.all(
      [
        () => store.begin(claim),
        () =>
          durableObjectIdempotencyStore({
            idFromName: (name: string) => ({ name }),
            get: () => ({ begin: async () => ({ version: 1 }) }),
          }).begin(claim),
        () => durableObjectIdempotencyStore({ idFromName: (name: string) => ({ name }), get: () => ({}) }).begin(claim),
      ].map((call) => call().catch((error: { code: string }) => error.code)),
    );
    return { errors, rows: before.map(({ value }) => value.replace(/\d{13}/, "time")), codes };
  },
};

export default workerOf<Env>(tasks);
