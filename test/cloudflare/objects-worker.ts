/** What the tests of Durable Objects do inside of workerd. Every task is one request: POST /name with its input. */
import { DurableObject } from "cloudflare:workers";
import { combine, consumeAll, createLimiter, memoryStore, type Policy, type RateLimiter, type Store } from "sluice";
import { resolvePolicy } from "sluice/algorithms";
import {
  type DurableObjectNamespaceLike,
  durableObjectRateLimiter,
  durableObjectStore,
  RateLimiterDO,
} from "sluice/cloudflare";
import { describeRateLimiter, storeSuite } from "sluice/testing";
import { failuresOf } from "../collect.ts";

interface Env {
  OBJECTS: DurableObjectNamespaceLike;
  SLOPPY: DurableObjectNamespaceLike;
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
  born = Math.random();

  /** Loses all memory, as when Cloudflare moves it. */
  async crash(): Promise<void> {
    this.ctx.abort("a test wants it");
  }

  async look(): Promise<{ rows: number; alarm: number | null; tables: string[]; born: number }> {
    const { sql } = this.ctx.storage;
    const tables = sql
      .exec("SELECT name FROM sqlite_master WHERE type = 'table'")
      .toArray()
      .map(({ name }) => String(name));
    const buckets = tables.find((name) => name.startsWith("sluice_"));
    const rows = buckets ? Number(sql.exec(`SELECT count(*) AS n FROM ${buckets}`).toArray()[0]?.n) : 0;
    return { rows, alarm: await this.ctx.storage.getAlarm(), tables, born: this.born };
  }

  async sql(query: string, ...values: unknown[]): Promise<Record<string, unknown>[]> {
    return this.ctx.storage.sql.exec(query, ...values).toArray();
  }
}

/** The planted fault: it waits for something else between reading and writing. */
export class Sloppy extends DurableObject {
  declare ctx: { storage: { get(key: string): Promise<number>; put(key: string, value: number): Promise<void> } };

  async take({ groups }: { groups: unknown[][] }): Promise<unknown[][]> {
    const answers: unknown[][] = [];
    for (const _ of groups) {
      const used = (await this.ctx.storage.get("used")) ?? 0;
      await scheduler.wait(5);
      if (used >= 50) {
        answers.push([[0, 0, 1000, 1000, 1000]]);
        continue;
      }
      await this.ctx.storage.put("used", used + 1);
      answers.push([[1, 49 - used, 1000, 1000, 0]]);
    }
    return answers;
  }
}

declare const scheduler: { wait(ms: number): Promise<void> };

let made = 0;

/** The namespace, with objects that nobody has used before. */
function fresh(namespace: DurableObjectNamespaceLike): DurableObjectNamespaceLike & { crash(): Promise<void> } {
  const prefix = `${made++}:`;
  const used = new Set<string>();
  return {
    idFromName(name) {
      used.add(name);
      return namespace.idFromName(prefix + name);
    },
    get: (id) => namespace.get(id),
    async crash() {
      for (const name of used) {
        const stub = namespace.get(namespace.idFromName(prefix + name) as never) as Objects;
        await stub.crash().catch(() => {});
      }
    },
  };
}

/** Moves the clock of this isolate, which its objects share. Past all real alarms, so that none goes off. */
const { now: realNow } = Date;
let fakeNow = 0;
function fakeTime(): (ms: number) => void {
  fakeNow = realNow() + 10 * 365 * 86_400_000;
  Date.now = () => fakeNow;
  return (ms) => {
    fakeNow += ms;
  };
}

type Shards = number | "per-key";
type Input = Record<string, never>;

const tasks: Record<string, (env: Env, input: Input) => unknown> = {
  /** The contract kit, with a clock that can be moved and objects that are lost. */
  async kit({ OBJECTS }, { algorithm, shards }: { algorithm: "token-bucket"; shards: Shards }) {
    const advance = fakeTime();
    let cases = 0;
    const create = () => {
      const namespace = fresh(OBJECTS);
      const open = () => durableObjectStore(namespace, { shards });
      return {
        store: open(),
        advance,
        restart: async () => {
          await namespace.crash();
          return open();
        },
      };
    };
    const options = { algorithms: [algorithm], time: "fake", restart: true } as const;
    const failures = await failuresOf(({ describe, it }) => {
      const counted = (name: string, body: () => Promise<void>) => {
        cases++;
        it(name, body);
      };
      if (shards !== "per-key") {
        storeSuite("Durable Objects", create, { ...options, describe, it: counted });
        return;
      }
      describeRateLimiter(
        "Durable Objects, one for each key",
        (policy: Policy) => {
          const { store, restart } = create();
          const on = (store: Store): RateLimiter => createLimiter({ policy, store, localDenialMs: 0 });
          return { limiter: on(store), advance, restart: async () => on(await restart()) };
        },
        { ...options, describe, it: counted },
      );
    });
    Date.now = realNow;
    return { cases, failures };
  },
};

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const task = tasks[new URL(request.url).pathname.slice(1)];
    if (!task) return new Response("no such task", { status: 404 });
    try {
      return Response.json((await task(env, await request.json())) ?? null);
    } catch (error) {
      return new Response(String((error as Error)?.stack ?? error), { status: 500 });
    }
  },
};

export { combine, consumeAll, durableObjectRateLimiter, memoryStore, resolvePolicy };
