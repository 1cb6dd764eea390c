/**
 * Plans and overrides that are switched 1000 times: each plan has a bucket of its own, which is found again as it was left.
 * A limiter per policy, which sees only the requests of its plan, is the model of every decision.
 */
import { createLimiter, type Decision, type MemoryStore, memoryStore, type RateLimiter, type Store } from "sluice";
import { redisStore } from "sluice/redis";
import { loadRules, type RuleSet } from "sluice/rules";
import { type FakeClock, fakeClock } from "sluice/testing";
import { describe, expect, it } from "vitest";
import { randomFrom } from "../../src/testing/random.ts";
import { onFakeTime } from "../redis/on-fake-time.ts";
import { redis } from "../redis/own-redis.ts";
import { withRedis } from "../servers/needs.ts";

const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
const SWITCHES = 1000;
const HOUR = 3_600_000;
const MAX_STEP_MS = 30_000;

/** The limits of the tenant, by policy name. `rate` is per hour; a window starts with its whole limit. */
const LIMITS = {
  "api@free": { text: "20/h", capacity: 20, rate: 20, isWindow: false },
  "api@pro": { text: "50/h fixed", capacity: 50, rate: 50, isWindow: true },
  "api@team": { text: "30/h log", capacity: 30, rate: 30, isWindow: true },
  "api@override": { text: "40/h burst 15", capacity: 15, rate: 40, isWindow: false },
} as const;
type PolicyName = keyof typeof LIMITS;

const dataWith = (isOverridden: boolean, pro: string = LIMITS["api@pro"].text) => ({
  plans: ["free", "pro", "team"],
  defaultPlan: "free",
  budgets: { api: { tenant: { free: LIMITS["api@free"].text, pro, team: LIMITS["api@team"].text } } },
  defaults: { budgets: ["api"] },
  rules: [{ name: "read", match: "/read", limits: { ip: "100000/h" } }],
  fallback: { limits: { ip: "1000/h" } },
  overrides: isOverridden ? { "tenant:acme": { api: LIMITS["api@override"].text } } : {},
});

/** A plan of a caller, and the policy that it is limited by. */
const PLANS: readonly (readonly [plan: string | undefined, policy: PolicyName])[] = [
  ["free", "api@free"],
  ["pro", "api@pro"],
  ["team", "api@team"],
  // Unknown plans, and none, are the default plan.
  ["gold", "api@free"],
  ["toString", "api@free"],
  [undefined, "api@free"],
];

/** A store on a fake clock, and the stored state of each policy whose name contains a text. */
interface Subject {
  readonly clock: FakeClock;
  readonly store: Store;
  stateOf(policy: string): Promise<string>;
}

function inMemory(): Subject {
  const clock = fakeClock();
  const store = memoryStore({ clock });
  const stateOf = async (policy: string) => {
    const { policies } = store as MemoryStore & {
      policies: Map<string, { shards: { keys: string[]; cells: ArrayLike<number> }[] }>;
    };
    const found = [...policies].filter(([id]) => id.includes(policy));
    return JSON.stringify(
      found.map(([id, { shards }]) => [id, shards.map(({ keys, cells }) => [keys, Array.from(cells)])]),
    );
  };
  return { clock, store, stateOf };
}

function onRedis(): Subject {
  const clock = fakeClock();
  // TTLs pass in real time, not in that of the fake clock.
  const store = redisStore(onFakeTime(redis, clock), { ttlMs: "1h" });
  const stateOf = async (policy: string) => {
    const keys = (await redis.keys(`*${policy}*`)).sort();
    return JSON.stringify(
      await Promise.all(keys.map(async (key) => [key, (await redis.dumpBuffer(key)).toString("hex")])),
    );
  };
  return { clock, store, stateOf };
}

const SUBJECTS: readonly (readonly [name: string, options: object, create: () => Subject])[] = [
  ["memory", {}, inMemory],
  ["Redis", withRedis, onRedis],
];

describe.each(SUBJECTS)(`switched plans and overrides on %s, seed ${seed}`, (_name, options, create) => {
  const start = (subject: Subject, events: object[] = []) => {
    const rules = loadRules(dataWith(false), {
      store: subject.store,
      facts: ["tenant", "plan"],
      prefix: `s${Math.random()}`,
      deadlineMs: 20_000,
      localDenialMs: 0,
      onEvent: (event) => void events.push(event),
    });
    return { rules, take: (plan?: string) => takeFrom(rules, plan) };
  };

  it("admit what the limiters of the plans admit, each on its own", options, async () => {
    const random = randomFrom(seed);
    const subject = create();
    const { clock } = subject;
    const events: { type: string; plan?: string }[] = [];
    const { rules, take } = start(subject, events);
    const models = modelsOn(clock);
    const admitted = new Map<PolicyName, number>();
    const startMs = clock.now();
    let isOverridden = false;
    for (let i = 0; i < SWITCHES; i++) {
      if (random.whole(1, 3) === 1) {
        isOverridden = !isOverridden;
        const changes = await rules.replace(dataWith(isOverridden));
        expect(changes).toEqual(["overrides changed."]);
      }
      const [plan, ofPlan] = random.pick(PLANS);
      const policy = isOverridden ? "api@override" : ofPlan;
      clock.advance(random.whole(0, MAX_STEP_MS));
      for (let n = random.whole(1, 4); n > 0; n--) {
        const decision = await take(plan);
        expect(fieldsOf(decision), `switch ${i} to ${plan}, ${policy}`).toEqual(
          fieldsOf(models[policy].consumeSync("tenant:acme")),
        );
        if (decision.allowed) admitted.set(policy, (admitted.get(policy) ?? 0) + 1);
      }
    }
    const hours = (clock.now() - startMs) / HOUR;
    expect(admitted.size).toBe(4);
    for (const [policy, count] of admitted) {
      const { capacity, rate, isWindow } = LIMITS[policy];
      // Windows are refilled at once, at most once more than hours have started.
      const bound = isWindow ? capacity * (Math.floor(hours) + 2) : capacity + Math.ceil(rate * hours);
      expect(count, policy).toBeLessThanOrEqual(bound);
      expect(count, policy).toBeGreaterThan(capacity);
    }
    expect(events.filter(({ type }) => type === "unknown-plan").map(({ plan }) => plan)).toHaveLength(2);
    const total = [...admitted].map(([policy, count]) => `${policy} ${count}`).join(", ");
    console.log(`${SWITCHES} switches in ${hours.toFixed(1)} h of fake time: ${total}, seed ${seed}`);
    await rules.dispose();
  });

  it("leave the buckets of other plans as they were, byte for byte", options, async () => {
    const subject = create();
    const { rules, take } = start(subject);
    for (let i = 0; i < 25; i++) await take("free");
    for (let i = 0; i < 7; i++) await take("pro");
    const before = await subject.stateOf("api@free");
    expect(before).toContain("api@free");
    const pro = await subject.stateOf("api@pro");
    for (let i = 0; i < 50; i++) await take("team");
    await rules.replace(dataWith(true));
    for (let i = 0; i < 50; i++) await take("pro");
    expect([await subject.stateOf("api@free"), await subject.stateOf("api@pro")]).toEqual([before, pro]);
    await rules.replace(dataWith(false));
    expect(await take("free")).toMatchObject({ allowed: false, remaining: 0 });
    expect(await take("pro")).toMatchObject({ allowed: true, remaining: 42 });
    expect(await subject.stateOf("api@free")).toBe(before);
    await rules.dispose();
  });

  it("report a new window, start its buckets, and find the old ones again", options, async () => {
    const subject = create();
    const { rules, take } = start(subject);
    for (let i = 0; i < 60; i++) await take("pro");
    const before = await subject.stateOf("api@pro");
    const words = "it starts new buckets, because the algorithm, window or fill time changed.";
    expect(await rules.replace(dataWith(false, "50/2h fixed"))).toContain(
      `api@pro: changed from "50/h fixed" to "50/2h fixed"; ${words}`,
    );
    let admitted = 0;
    for (let i = 0; i < 60; i++) if ((await take("pro")).allowed) admitted++;
    expect(admitted).toBe(50);
    await rules.replace(dataWith(false));
    expect(await take("pro")).toMatchObject({ allowed: false, policy: "api@pro", limit: 50, remaining: 0 });
    for (const state of JSON.parse(before) as unknown[]) {
      expect(JSON.parse(await subject.stateOf("api@pro"))).toContainEqual(state);
    }
    await rules.dispose();
  });
});

/** Charges a request, and returns the decision of the tenant's limit. */
async function takeFrom(rules: RuleSet, plan: string | undefined): Promise<Decision> {
  const facts = { tenant: "acme", ...(plan === undefined ? {} : { plan }) };
  const { parts } = await rules.consume({ method: "GET", path: "/read", ip: "203.0.113.7", facts });
  return parts?.find(({ policy }) => policy.startsWith("api@")) as Decision;
}

/** One limiter per policy, each on a memory store of its own. */
function modelsOn(clock: FakeClock): Record<PolicyName, RateLimiter & { consumeSync(key: string): Decision }> {
  const entries = Object.entries(LIMITS).map(([name, { text }]) => {
    return [name, createLimiter({ policy: text, store: memoryStore({ clock }) })];
  });
  return Object.fromEntries(entries);
}

/** Everything in a decision but the name of its policy. */
function fieldsOf({ policy: _, ...fields }: Decision): object {
  return fields;
}
