/** Header fields of random charge lists: each item has its own unit and partition key, for an independent parser. */
import type { Decision, ResolvedPolicy } from "sluice";
import { partitionKey, rateLimitHeaders } from "sluice/http";
import { parseList } from "structured-headers";
import { expect, it } from "vitest";
import { type Random, randomFrom } from "../../testing/random.ts";

const LISTS = 20_000;
const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
const NAME_CHARACTERS = [..." !\"#$%&\\'();=,{}~azAZ09:*@.+-_"];
const UNITS = [undefined, undefined, "requests", "tokens", "items", 'a"b\\c', "content-bytes"];
const ALGORITHMS = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log", "concurrency"];
const KEYS = [
  "ip:203.0.113.7",
  "tenant:acme",
  "user:42",
  "global",
  "ip:::1+account:ada@example.com",
  "key:\u00e9\u4e2d",
];

function textOf(random: Random): string {
  return Array.from({ length: random.whole(1, 20) }, () => random.pick(NAME_CHARACTERS)).join("");
}

function randomCharge(random: Random, i: number) {
  const algorithm = random.pick(ALGORITHMS);
  const limit = random.whole(1, random.pick([10, 1000, 2 ** 31 - 1]));
  const name = `${i}${textOf(random)}`;
  const unit = random.pick(UNITS);
  const windowMs = random.whole(1, random.pick([1000, 10 ** 8]));
  const policy = { algorithm, name, limit, windowMs, ...(unit === undefined ? {} : { unit }) } as ResolvedPolicy;
  const decision: Decision = {
    allowed: true,
    policy: name,
    limit,
    remaining: random.whole(0, limit),
    resetAfterMs: random.whole(0, windowMs),
    nextAfterMs: random.pick([0, random.whole(1, windowMs)]),
  };
  return { policy, decision, key: random.pick(KEYS) };
}

it(`${LISTS} random charge lists have a unit and a partition key per item, seed ${seed}`, () => {
  const random = randomFrom(seed);
  const hash = partitionKey("a secret");
  const hashes = new Map(KEYS.map((key) => [key, hash(key)]));
  let items = 0;
  for (let i = 0; i < LISTS; i++) {
    const charges = Array.from({ length: random.whole(1, random.pick([1, 3, 16])) }, (_, n) => randomCharge(random, n));
    const [first] = charges as [(typeof charges)[0]];
    const policies = charges.map(({ policy }) => policy);
    const keys = charges.map(({ key }) => key);
    const parts = charges.map(({ decision }) => decision);
    const decision = parts.length === 1 ? first.decision : { ...random.pick(parts), parts };
    const fields = rateLimitHeaders(decision, policies, {
      partitionKey: (key) => hashes.get(key) as string,
      key: first.key,
      keys,
    });
    const stated = parseList(fields["RateLimit-Policy"] ?? "") as [string, Map<string, unknown>][];
    const left = parseList(fields.RateLimit ?? "") as [string, Map<string, unknown>][];
    const partitions = (list: typeof stated) =>
      list.map(([, parameters]) => Buffer.from(parameters.get("pk") as ArrayBuffer).toString("base64"));
    const expected = keys.map((key) => hashes.get(key));
    const problem = [
      [stated.map(([name]) => name), policies.map(({ name }) => name)],
      [left.map(([name]) => name), policies.map(({ name }) => name)],
      [partitions(stated), expected],
      [partitions(left), expected],
      [stated.map(([, parameters]) => parameters.get("qu")), policies.map(unitOf)],
      [stated.map(([, parameters]) => parameters.get("q")), policies.map(({ limit }) => limit)],
      [left.map(([, parameters]) => parameters.get("r")), parts.map(({ remaining }) => remaining)],
    ].find(([found, wanted]) => JSON.stringify(found) !== JSON.stringify(wanted));
    if (problem) throw new Error(`seed ${seed}, list ${i}: ${JSON.stringify(problem)}; ${JSON.stringify(fields)}`);
    items += charges.length;
  }
  console.log(`${LISTS} lists with ${items} items, seed ${seed}`);
  expect(items).toBeGreaterThan(2 * LISTS);
}, 300_000);

/** What `qu` must be. Requests are the default unit and are left out. */
function unitOf({ algorithm, unit }: ResolvedPolicy): string | undefined {
  if (algorithm === "concurrency") return "concurrent-requests";
  return unit === "requests" ? undefined : unit;
}
