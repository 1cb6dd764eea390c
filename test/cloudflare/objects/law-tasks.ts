/** Tasks that check the laws of a store on Durable Objects. */
import {
  type AlgorithmName,
  type Charge,
  createLimiter,
  type Decision,
  type Mode,
  memoryStore,
  type Policy,
  type RateLimiter,
  type Store,
} from "sluice";
import { compilePolicy, holdTerms } from "sluice/algorithms";
import { durableObjectStore } from "sluice/cloudflare";
import { describeRateLimiter, storeSuite } from "sluice/testing";
import { checkEqual } from "../../../src/testing/check.ts";
import { PlanBounds, planBatches, planPair } from "../../../src/testing/plan-charges.ts";
import { randomFrom } from "../../../src/testing/random.ts";
import { failuresOf } from "../../collect.ts";
import { randomSample, seededRandom } from "../../model-samples.ts";
import type { Tasks } from "../tasks.ts";
import { type Env, FreshNamespace, fakeTime, realNow, type Shards } from "./namespace.ts";

type RateAlgorithm = Parameters<typeof randomSample>[0];

export const lawTasks: Tasks<Env> = {
  /** Runs the contract suite with a fake clock and objects that crash. */
  async contractSuite({ OBJECTS }, { algorithm, shards }: { algorithm: AlgorithmName; shards: Shards }) {
    const advance = fakeTime();
    let cases = 0;
    const create = () => {
      const namespace = new FreshNamespace(OBJECTS);
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
      if (shards !== "per-key") return storeSuite("Durable Objects", create, { ...options, holds: true });
      // storeSuite uses groups of two keys, which live in different objects here.
      describeRateLimiter(
        "Durable Objects, one per key",
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

  /** Runs random steps on objects and in memory, in several namespaces at once, with crashes in between. */
  async randomSteps(
    { OBJECTS },
    { algorithm, steps, seed }: { algorithm: RateAlgorithm; steps: number; seed: number },
  ) {
    const advance = fakeTime();
    const random = seededRandom(seed);
    const upTo = (most: number) => Math.floor(random() * (most + 1));
    let [done, crashes, allowed] = [0, 0, 0];
    const modes: Mode[] = ["take", "take", "take", "take", "peek", "refund"];
    // A leaky bucket has no holds.
    if (algorithm !== "leaky-bucket") modes.push("hold", "hold", "hold", "settle", "settle");
    const createNamespace = () => {
      const namespace = new FreshNamespace(OBJECTS);
      const objects = durableObjectStore(namespace, { shards: 4 });
      const memory = memoryStore({ clock: { now: () => Date.now() } });
      const policy = ["p", "q"].map((name) => compilePolicy({ ...randomSample(algorithm, random).policy, name }));
      return async () => {
        const key = `key ${upTo(5)}`;
        const mode = modes[upTo(modes.length - 1)] as Mode;
        const charges = policy.slice(0, random() < 0.3 ? 2 : 1).map((policy): Charge => {
          const cost = [0, 1, 1, 2, upTo(policy.limit), policy.limit + 1][upTo(5)] as number;
          if (mode !== "hold" && mode !== "settle") return { policy, key, cost, mode };
          const forMs = mode === "hold" ? 1 + upTo([5, 200, 8000][upTo(2)] as number) : 0;
          return { policy, key, cost: Math.max(1, cost), mode, hold: holdTerms(`h${upTo(3)}`, forMs) };
        });
        if (random() < 0.02) {
          await namespace.crash();
          crashes++;
        }
        const [[there], [here]] = await Promise.all([objects.apply([charges]), memory.apply([charges])]);
        done++;
        if (there?.[0]?.allowed) allowed++;
        checkEqual(there, here, `seed ${seed} step ${done}: ${JSON.stringify(charges)}`);
      };
    };
    while (done < steps) {
      const namespaces = Array.from({ length: 20 }, createNamespace);
      for (let i = 0; i < 100 && done < steps; i++) {
        // Only forward: after a step back, a bucket that was deleted when full would differ from one that was not.
        advance(random() < 0.4 ? 0 : upTo([3, 100, 5000][upTo(2)] as number));
        await Promise.all(namespaces.map((step) => step()));
      }
    }
    Date.now = realNow;
    return { done, crashes, allowed };
  },

  /** Runs random steps of two plans that share buckets, and checks them against memory and the bound of each. */
  async sharedPlans(
    { OBJECTS },
    { algorithm, steps, seed }: { algorithm: RateAlgorithm; steps: number; seed: number },
  ) {
    const advance = fakeTime();
    const random = randomFrom(seed);
    let [done, allowed] = [0, 0];
    while (done < steps) {
      const objects = durableObjectStore(new FreshNamespace(OBJECTS), { shards: 4 });
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
};
