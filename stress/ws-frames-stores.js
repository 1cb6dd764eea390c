/** The limiters of a run of `ws-frames.js`: they fail at random, and check that no store grants more than its policy. */
import { createLimiter, leakyBucket, memoryStore, tokenBucket } from "../dist/index.js";
import { perUserKey } from "../dist/ws.js";
import { clock } from "./fake-time.js";
import { randomFrom } from "./random.js";

/** An error that the test throws on purpose. */
export class InjectedError extends Error {}
/** The same in a `limiter`, `key` or `cost`. */
export class InjectedCostError extends InjectedError {}

export const tick = () => new Promise(setImmediate);

/** The part of a run that makes limiters. */
export class RunWithStores {
  constructor(name, seed) {
    this.name = name;
    this.random = randomFrom(seed);
    this.failures = [];
    this.counts = { injected: 0 };
    /** Cost that stores granted, and the part of it that was handled, by bucket. */
    this.buckets = new Map();
    /** The charges of a frame, by its ingress. */
    this.charged = new WeakMap();
  }

  /** Ends the connection of the current frame in one of so many calls, at random. */
  disconnectSometimes(_oneIn) {}

  fail(text) {
    if (this.failures.length < 20) this.failures.push(`${this.name}: ${text}`);
  }

  /** Throws in one of so many calls, at random. */
  injectError(oneIn, Kind = InjectedError) {
    if (!this.random.once(oneIn)) return;
    this.counts.injected++;
    throw new Kind();
  }

  /** Throws or rejects in one of so many calls, at random. */
  failSometimes(oneIn) {
    this.injectError(oneIn);
    if (!this.random.once(oneIn)) return undefined;
    this.counts.injected++;
    return Promise.reject(new InjectedError());
  }

  limitOf(kind, i) {
    const { random } = this;
    const policy = kind.includes("leaky")
      ? leakyBucket({ capacity: 10, leaksPerSecond: 20, name: `l${i}` })
      : tokenBucket({ capacity: 20 + 15 * i, tokensPerSecond: 5 + 5 * i, name: `t${i}` });
    const inner = memoryStore({ clock });
    const isAsync = /async|promise/.test(kind);
    const store = isAsync ? this.asyncStore(inner) : this.recordingStore(inner);
    const made = createLimiter({ policy, store, onStoreError: i === 0 ? "throw" : "closed", deadlineMs: 20_000 });
    // A limiter of another library has only these methods.
    const { consume, getPolicy } = made;
    const bare = {
      consume: (key, cost) => this.later(() => consume.call(made, key, cost)),
      getPolicy: () => getPolicy.call(made),
    };
    const limiter = kind === "promise" ? bare : made;
    const byType = (ingress) => {
      this.injectError(400, InjectedCostError);
      if (random.once(400)) return /** @type {any} */ ("junk");
      return ingress.type === "chat" ? undefined : limiter;
    };
    const costs = new WeakMap();
    return {
      limiter: kind === "by type" ? byType : limiter,
      cost: (ingress) => {
        this.injectError(400, InjectedCostError);
        this.disconnectSometimes(800);
        const cost = random.once(200)
          ? random.pick([-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, "1", null, undefined, 2 ** 40])
          : random.pick([0, 1, 1, 1, 1, 2, 3, 50]);
        costs.set(ingress, cost);
        return cost;
      },
      key: (ingress) => {
        this.injectError(400, InjectedCostError);
        this.disconnectSometimes(800);
        if (random.once(400)) return /** @type {any} */ (random.pick(["", null, undefined, 7, {}, Symbol("key")]));
        const key = i === 0 ? perUserKey(ingress) : `${perUserKey(ingress)}:${ingress.type}`;
        const all = this.charged.get(ingress) ?? [];
        all.push({ bucket: `${policy.name} ${key}`, cost: costs.get(ingress) });
        this.charged.set(ingress, all);
        return key;
      },
    };
  }

  /** Runs a function after a random delay, and fails at random. */
  async later(run) {
    const { random } = this;
    for (let turns = random.whole(0, 5); turns > 0; turns--) await undefined;
    while (random.once(3)) await tick();
    this.injectError(150);
    const result = await run();
    while (random.once(3)) await tick();
    this.injectError(150);
    return result;
  }

  /** A store that records what it grants. */
  recordingStore(inner) {
    return {
      consistency: inner.consistency,
      open: (policy) => {
        const buckets = inner.open(policy);
        return {
          take: (key, cost) => {
            this.injectError(1000);
            return this.record([buckets.take(key, cost)], [{ policy, key, cost }])[0];
          },
        };
      },
      applySync: (group) => {
        this.injectError(1000);
        return this.record(inner.applySync(group), group);
      },
      apply: async (groups) => groups.map((group) => this.record(inner.applySync(group), group)),
      reset: (policy, key) => inner.reset(policy, key),
      inspect: (policy, key) => inner.inspect(policy, key),
      dispose: () => inner.dispose(),
    };
  }

  /** The same store, asynchronous. */
  asyncStore(inner) {
    const { consistency, apply, reset, inspect, dispose } = this.recordingStore(inner);
    return { consistency, apply: (groups) => this.later(() => apply(groups)), reset, inspect, dispose };
  }

  /** Records a grant, and checks that the policy allows it over every interval. Uses whole numbers only. */
  record(decisions, group) {
    if (!decisions.every(({ allowed }) => allowed)) return decisions;
    for (const { policy, key, cost, mode = "take" } of group) {
      if (mode === "peek") continue;
      const { name, limit, tokensPerSecond } = policy.resolved;
      const bucket = this.bucket(`${name} ${key}`);
      const now = clock.now();
      const spent = mode === "refund" ? -cost : cost;
      bucket.level = Math.max(0, Math.max(0, bucket.level - tokensPerSecond * (now - bucket.at)) + 1000 * spent);
      bucket.at = now;
      bucket.granted += spent;
      if (bucket.level > 1000 * limit) this.fail(`${bucket.level / 1000} of ${limit} granted to ${name} ${key}`);
    }
    return decisions;
  }

  bucket(name) {
    let bucket = this.buckets.get(name);
    if (!bucket) this.buckets.set(name, (bucket = { level: 0, at: clock.now(), granted: 0, handled: 0 }));
    return bucket;
  }
}
