/** Random rule files: valid ones, and ones with mutations that people and attackers make. */
import type { Random } from "../../src/testing/random.ts";
import { type AnyFile, validFile } from "./rule-files.ts";
import { saasRules } from "./saas-rules.ts";

const PLANS = ["free", "pro", "__proto__"];
const PERS = [
  "ip",
  "network",
  "client",
  "global",
  "user",
  "apiKey",
  "tenant",
  "ip+account",
  "tenant+user",
  "ip+network",
];
const UNITS = ["ms", "s", "m", "h", "d", "15m", "30d", "minute", "hours"];
const PRESETS = ["anonymous", "login", "mfa", "password-reset", "signup", "webhooks", "search", "ai-tokens"];
const TEXTS = [
  "60 per minute",
  "100/week",
  "5 concurrent of tokens",
  "unlimited of tokens",
  "10/s of ip",
  "0/s",
  "1/s burst 0",
  "GET /a",
  "/v1/*",
  "GET|POST /v1/:id",
  "POST login",
  "login",
  "fallback",
  "override",
  "tenant:acme",
  "",
  " ",
  "\ud800",
  "__proto__",
  "constructor",
  "toString",
  `1/${" ".repeat(60)}!`,
];
const KEYS = [
  "limit",
  "limits",
  "ip+",
  "a b",
  "__proto__",
  "constructor",
  "",
  "0",
  "\udfff/~",
  "plan",
  "name",
  "hold",
  "unlimited",
];

/** A limit as text. */
function limitText(random: Random): string {
  const rate = `${random.whole(1, 1000)}/${random.pick(UNITS)}`;
  const of = random.whole(1, 6) === 1 ? " of tokens" : "";
  const kind = random.whole(1, 12);
  if (kind === 1) return "unlimited";
  if (kind === 2) return `${random.whole(1, 50)} concurrent${random.pick(["", " lease 30s"])}`;
  if (kind < 6) return `${rate} burst ${random.whole(1000, 5000)}${of}`;
  return `${rate} ${random.pick(["fixed", "sliding", "log"])}${of}`;
}

function limitOf(random: Random, plans: readonly string[]): unknown {
  const kind = random.whole(1, 5);
  if (kind === 1 && plans.length > 0) return record(plans.map((plan) => [plan, limitText(random)]));
  return kind === 2 ? [limitText(random), limitText(random)] : limitText(random);
}

/** An object with own members, also if one is called `__proto__`. */
function record(entries: (readonly [string, unknown])[]): Record<string, unknown> {
  return Object.fromEntries(entries);
}

function limitsOf(random: Random, plans: readonly string[]): Record<string, unknown> {
  const pers = new Set(Array.from({ length: random.whole(1, 3) }, () => random.pick(PERS)));
  return { ip: "10/s", ...record([...pers].map((per) => [per, limitOf(random, plans)])) };
}

/** A file that is usually valid. */
function plausibleFile(random: Random): AnyFile {
  const plans = random.whole(0, 1) === 1 ? PLANS.slice(0, random.whole(1, 3)) : [];
  const budgets = ["api", "daily"].slice(0, random.whole(0, 2));
  const rules = Array.from({ length: random.whole(0, 6) }, (_, i) => {
    const base = { name: `r${i}`, match: random.pick([`/r${i}`, [`GET /r${i}/:id`, `/s${i}/*`]]) };
    if (random.whole(1, 6) === 1) return { ...base, unlimited: true };
    return {
      ...base,
      ...(random.whole(1, 4) === 1 ? { preset: random.pick(PRESETS) } : { limits: limitsOf(random, plans) }),
      ...(random.whole(1, 4) === 1 && { without: { [random.pick(["tenant", "user"])]: limitOf(random, plans) } }),
      ...(random.whole(1, 3) === 1 && { budgets: budgets.filter(() => random.whole(0, 1) === 1) }),
      ...(random.whole(1, 4) === 1 && { weight: random.whole(1, 20) }),
      ...(random.whole(1, 5) === 1 && { mode: random.pick(["enforce", "shadow"]) }),
      ...(random.whole(1, 5) === 1 && { onStoreError: random.pick(["local", "open", "closed", "throw"]) }),
      ...(random.whole(1, 6) === 1 && { when: { bot: random.pick(["likely", ["likely", "certain"]]) } }),
      ...(random.whole(1, 6) === 1 && { action: random.pick(["deny", "flag", { ip: "flag" }]) }),
      ...(random.whole(1, 8) === 1 && { hold: random.pick(["5m", 1000]) }),
      ...(random.whole(1, 8) === 1 && { refundIf: "failed" }),
      ...(random.whole(1, 8) === 1 && { penalty: true, perPattern: true }),
    };
  });
  return {
    ...(plans.length > 0 && { plans, defaultPlan: random.pick(plans) }),
    ...(budgets.length > 0 && {
      budgets: record(budgets.map((name) => [name, { [random.pick(PERS)]: limitOf(random, plans) }])),
    }),
    ...(budgets.length > 0 && random.whole(0, 1) === 1 && { defaults: { budgets } }),
    rules,
    fallback: random.pick([{ limits: { ip: "2/s" } }, "unlimited", { preset: "anonymous" }]),
    ...(random.whole(1, 4) === 1 && { overrides: { "ip:203.0.113.7": { "fallback.ip": limitText(random) } } }),
  };
}

/** A random value that belongs nowhere in particular. */
function anyValue(random: Random): unknown {
  switch (random.whole(1, 14)) {
    case 1:
      return null;
    case 2:
      return random.pick([0, 1, -1, 1.5, 40, 513, 1e300, Number.MAX_SAFE_INTEGER]);
    case 3:
      return random.pick([true, false]);
    case 4:
      return [];
    case 5:
      return {};
    case 6:
      return [random.pick(TEXTS), random.pick(TEXTS)];
    case 7:
      return { [random.pick(KEYS)]: random.pick(TEXTS) };
    case 8:
      return nested(random.whole(3, 100));
    case 9:
      return random.whole(1, 200) === 1 ? random.pick(["a", " ", "1/", "/", "+"]).repeat(1_000_000) : "x".repeat(300);
    case 10:
      return limitText(random);
    case 11:
      return { free: "1/s", pro: "2/s" };
    default:
      return random.pick(TEXTS);
  }
}

function nested(depth: number): unknown {
  let value: unknown = "1/s";
  for (let i = 0; i < depth; i++) value = i % 2 === 0 ? [value] : { ip: value };
  return value;
}

/** Lists and objects of a file, each once. */
function containersOf(file: unknown): AnyFile[] {
  const found: unknown[] = [file];
  for (const one of found) {
    if (typeof one !== "object" || one === null) continue;
    for (const member of Object.values(one)) if (typeof member === "object" && member !== null) found.push(member);
    if (found.length > 500) break;
  }
  return found;
}

/** Sets a member of its own, also if it is called `__proto__`. In a list, that is an item. */
function put(owner: AnyFile, key: string, value: unknown): void {
  if (Array.isArray(owner)) owner.splice(/^\d+$/.test(key) ? Number(key) : owner.length, 1, value);
  else Object.defineProperty(owner, key, { value, enumerable: true, configurable: true, writable: true });
}

/** Changes one random place of a file. */
function mutate(random: Random, file: AnyFile): void {
  const owner = random.pick(containersOf(file));
  const keys = Object.keys(owner);
  const key = keys.length > 0 ? random.pick(keys) : random.pick(KEYS);
  const current = Object.hasOwn(owner, key) ? owner[key] : null;
  switch (random.whole(1, 8)) {
    case 1:
      if (Array.isArray(owner)) owner.pop();
      else delete owner[key];
      return;
    case 2:
      put(owner, random.pick(KEYS), anyValue(random));
      return;
    case 3:
      put(owner, `${key}s`, current);
      return;
    case 4: {
      if (typeof current !== "string") return;
      const at = random.whole(0, current.length);
      const text = random.pick(["", "x", " ", "+", "/", "0", "\ud83d"]);
      put(owner, key, current.slice(0, at) + text + current.slice(at + 1));
      return;
    }
    case 5:
      put(owner, key, [current]);
      return;
    case 6: {
      // A copy, so that the file stays a tree.
      const other = random.pick(containersOf(file));
      put(owner, key, other === file ? "unlimited" : structuredClone(other));
      return;
    }
    default:
      put(owner, key, anyValue(random));
  }
}

/** A file that `JSON.parse` could return: valid, or with up to three mutations. */
export function randomFile(random: Random): AnyFile {
  const kind = random.whole(1, 10);
  if (kind === 10) return anyValue(random);
  const file = kind === 1 ? structuredClone(saasRules) : kind === 2 ? validFile() : plausibleFile(random);
  for (let i = random.whole(0, 3); i > 0; i--) mutate(random, file);
  return file;
}

/** A file with what only code can create: cycles, holes, getters that throw, proxies, other types. */
export function hostileFile(random: Random): AnyFile {
  const file = plausibleFile(random);
  const hostile = [
    file,
    new Array(5),
    undefined,
    Symbol("x"),
    10n,
    () => "10/s",
    new Date(0),
    new Map([["ip", "10/s"]]),
    Object.create({ limits: { ip: "10/s" } }),
    new Proxy(
      {},
      {
        get: () => file,
        ownKeys: () => ["ip"],
        getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }),
      },
    ),
    new Proxy([], { get: (_, key) => (key === "length" ? 3 : hostile) }),
    Object.defineProperty({}, "ip", { enumerable: true, get: () => fail() }),
    new Proxy({}, { ownKeys: () => fail() }),
    revoked(),
    Number.NaN,
    Number.POSITIVE_INFINITY,
  ];
  const owners = [file, file.fallback, file.rules, file.rules[0], file.rules[0]?.limits, file.budgets];
  for (let i = random.whole(1, 2); i > 0; i--) {
    const owner = random.pick(owners);
    if (typeof owner !== "object" || owner === null) continue;
    const key = random.pick([...Object.keys(owner), "limits"]);
    if (Array.isArray(owner)) owner.push(random.pick(hostile));
    else Object.defineProperty(owner, key, { value: random.pick(hostile), enumerable: true, configurable: true });
  }
  return random.whole(1, 10) === 1 ? random.pick(hostile) : file;
}

function fail(): never {
  throw new Error("a getter that throws");
}

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}
