/**
 * The Worker of `cloudflare-throughput`: the objects, their callers, and the measured loop. One request runs a whole loop,
 * because a request per decision would measure HTTP.
 */
import { DurableObject } from "cloudflare:workers";
import { createLimiter } from "sluice";
import { durableObjectRateLimiter, durableObjectStore, RateLimiterDO } from "sluice/cloudflare";

export { RateLimiterDO };

/** Decisions per round. */
const ROUND = 64;
/**
 * A limit that is never reached. The cost charged first takes an hour to refill: no alarm deletes buckets during the
 * measurement of another contender.
 */
const AMPLE = { capacity: 1e9, perSecond: 1000, used: 3.6e6 };
/** A limit that is used up for a day. */
const SPENT = { capacity: 1, perSecond: 1e-5, used: 1 };
/** A late reply must not become a decision without the object. */
const STRICT = { onStoreError: "throw", deadlineMs: "20s" };
const EXACT = { ...STRICT, localDenialMs: 0 };

/** The usual token bucket in articles about Durable Objects. */
export class GetPut extends DurableObject {
  async fetch(request) {
    const { key, cost, capacity, perSecond } = await request.json();
    const now = Date.now();
    const bucket = (await this.ctx.storage.get(key)) ?? { tokens: capacity, last: now };
    let tokens = Math.min(capacity, bucket.tokens + ((now - bucket.last) / 1000) * perSecond);
    const allowed = tokens >= cost;
    if (allowed) tokens -= cost;
    await this.ctx.storage.put(key, { tokens, last: now });
    return Response.json({ allowed, remaining: Math.floor(tokens) });
  }
}

/** The cost of an RPC call alone: counts in memory and stores nothing. */
export class Bare extends DurableObject {
  #used = new Map();

  hit(key, cost, capacity) {
    const used = (this.#used.get(key) ?? 0) + cost;
    if (used > capacity) return { allowed: false };
    this.#used.set(key, used);
    return { allowed: true };
  }
}

/** Each takes namespaces and a policy, and returns `hit(key, cost, index)`; `index` is the position of the call in its round. */
const contenders = {
  "get-put"({ GET_PUT }, { capacity, perSecond }) {
    return async (key, cost) => {
      const body = JSON.stringify({ key, cost, capacity, perSecond });
      const response = await stubOf(GET_PUT).fetch("https://object/", { method: "POST", body });
      return response.json();
    };
  },
  bare:
    ({ BARE }, { capacity }) =>
    (key, cost) =>
      stubOf(BARE).hit(key, cost, capacity),
  "one-object": ({ RATE_LIMITER }, policy) => sluice(RATE_LIMITER, policy, { ...EXACT, shards: 1 }),
  /** Every call of a round uses its own store, so calls to the one object are not batched. */
  unbatched({ RATE_LIMITER }, { capacity, perSecond }) {
    const policy = { capacity, tokensPerSecond: perSecond };
    const limiters = Array.from({ length: ROUND }, () =>
      createLimiter({ policy, store: durableObjectStore(RATE_LIMITER, { shards: 1 }), ...EXACT }),
    );
    return (key, cost, index) => limiters[index].consume(key, cost);
  },
  "16-objects": ({ RATE_LIMITER }, policy) => sluice(RATE_LIMITER, policy, { ...EXACT, shards: 16 }),
  "local-denial": ({ RATE_LIMITER }, policy) => sluice(RATE_LIMITER, policy, { ...STRICT, shards: 1 }),
};

function sluice(namespace, { capacity, perSecond }, options) {
  const limiter = durableObjectRateLimiter(namespace, { capacity, tokensPerSecond: perSecond }, options);
  return (key, cost) => limiter.consume(key, cost);
}

function stubOf(namespace) {
  return namespace.get(namespace.idFromName("all"));
}

/** Prepared scenarios. The limiters of a Worker outlive its requests. */
const prepared = new Map();

async function prepare(env, name, denied, keyCount) {
  const scenario = `${name} ${denied} ${keyCount}`;
  const known = prepared.get(scenario);
  if (known) return known;
  const calls = { count: 0 };
  // Every scenario has its own objects and counts the calls to them.
  const ownObjects = (namespace) => ({
    idFromName: (object) => namespace.idFromName(`${scenario} ${object}`),
    get(id) {
      calls.count++;
      return namespace.get(id);
    },
  });
  const namespaces = Object.fromEntries(Object.entries(env).map(([binding, value]) => [binding, ownObjects(value)]));
  const policy = denied ? SPENT : AMPLE;
  const hit = contenders[name](namespaces, policy);
  const keys = Array.from({ length: keyCount }, (_, i) => `user:${String(i).padStart(10, "0")}`);
  await Promise.all(keys.map((key) => hit(key, policy.used, 0)));
  // After this many rounds the keys repeat.
  const rounds = Array.from({ length: keyCount }, (_, round) =>
    Array.from({ length: ROUND }, (_, index) => keys[(round * ROUND + index) % keyCount]),
  );
  const scenarioState = { hit, rounds, calls };
  prepared.set(scenario, scenarioState);
  return scenarioState;
}

async function hitSequentially(hit, keys) {
  const decisions = [];
  for (const key of keys) decisions.push(await hit(key, 1, 0));
  return decisions;
}

async function measure(env, { name, denied, concurrent, keyCount, forMs }) {
  const { hit, rounds, calls } = await prepare(env, name, denied, keyCount);
  calls.count = 0;
  let [round, decisions, elapsed] = [0, [], 0];
  const start = performance.now();
  do {
    const keys = rounds[round++ % rounds.length];
    decisions = concurrent
      ? await Promise.all(keys.map((key, index) => hit(key, 1, index)))
      : await hitSequentially(hit, keys);
    elapsed = performance.now() - start;
  } while (elapsed < forMs);
  const wrong = decisions.find(({ allowed }) => allowed === denied);
  if (wrong) throw new Error(`${name}: ${JSON.stringify(wrong)} is not ${denied ? "a denial" : "a grant"}`);
  return { elapsed, decisions: round * ROUND, calls: calls.count };
}

export default {
  async fetch(request, env) {
    try {
      return Response.json(await measure(env, await request.json()));
    } catch (error) {
      return new Response(String(error?.stack ?? error), { status: 500 });
    }
  },
};
