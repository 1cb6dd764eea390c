/**
 * The Worker that `cloudflare-throughput` runs in workerd: the objects, who asks them, and the loop that is timed. A
 * request is one loop, because a request for each decision would measure HTTP.
 */
import { DurableObject } from "cloudflare:workers";
import { createLimiter } from "sluice";
import { durableObjectRateLimiter, durableObjectStore, RateLimiterDO } from "sluice/cloudflare";

export { RateLimiterDO };

/** So many decisions are asked for in one round. */
const ROUND = 64;
/**
 * Nothing is denied. What is used up at first takes an hour to come back, so that no object is woken by its alarm to
 * forget buckets in the middle of another contender's turn.
 */
const AMPLE = { capacity: 1e9, perSecond: 1000, used: 3.6e6 };
/** Everything is denied, for a day. */
const SPENT = { capacity: 1, perSecond: 1e-5, used: 1 };
/** A late answer must not become a decision that was made without the object. */
const STRICT = { onStoreError: "throw", deadlineMs: "20s" };
const EXACT = { ...STRICT, localDenialMs: 0 };

/** The token bucket that articles about Durable Objects show. */
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

/** What a call to an object costs when hardly anything is done there: it counts in memory and stores nothing. */
export class Bare extends DurableObject {
  #used = new Map();

  hit(key, cost, capacity) {
    const used = (this.#used.get(key) ?? 0) + cost;
    if (used > capacity) return { allowed: false };
    this.#used.set(key, used);
    return { allowed: true };
  }
}

/** Each is made of namespaces and a policy, and gives `hit(key, cost, place)`: the place of a call in its round. */
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
  /** Each call of a round through a store of its own, which has nobody to share a call with. The object is one. */
  apart({ RATE_LIMITER }, { capacity, perSecond }) {
    const policy = { capacity, tokensPerSecond: perSecond };
    const limiters = Array.from({ length: ROUND }, () =>
      createLimiter({ policy, store: durableObjectStore(RATE_LIMITER, { shards: 1 }), ...EXACT }),
    );
    return (key, cost, place) => limiters[place].consume(key, cost);
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

/** What is set up for a scenario stays, as the limiters of a Worker outlive its requests. */
const setUps = new Map();

async function setUp(env, name, denied, keyCount) {
  const scenario = `${name} ${denied} ${keyCount}`;
  const known = setUps.get(scenario);
  if (known) return known;
  const calls = { count: 0 };
  // Objects of its own for every scenario, and a count of the calls to them.
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
  // As many rounds as it takes until the first is due again.
  const rounds = Array.from({ length: keyCount }, (_, round) =>
    Array.from({ length: ROUND }, (_, place) => keys[(round * ROUND + place) % keyCount]),
  );
  const made = { hit, rounds, calls };
  setUps.set(scenario, made);
  return made;
}

async function inTurn(hit, keys) {
  const answers = [];
  for (const key of keys) answers.push(await hit(key, 1, 0));
  return answers;
}

async function measure(env, { name, denied, together, keyCount, forMs }) {
  const { hit, rounds, calls } = await setUp(env, name, denied, keyCount);
  calls.count = 0;
  let [round, answers, elapsed] = [0, [], 0];
  const start = performance.now();
  do {
    const keys = rounds[round++ % rounds.length];
    answers = together ? await Promise.all(keys.map((key, place) => hit(key, 1, place))) : await inTurn(hit, keys);
    elapsed = performance.now() - start;
  } while (elapsed < forMs);
  const wrong = answers.find(({ allowed }) => allowed === denied);
  if (wrong) throw new Error(`${name}: ${JSON.stringify(wrong)} where ${denied ? "denials" : "grants"} are measured`);
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
