/** One table of requests, and what each store must respond: A2 of penalties, through a middleware with rules. */
import type { Store } from "sluice";
import { type Abuse, abuse } from "sluice/abuse";
import { rateLimit } from "sluice/fetch";
import { loadRules } from "sluice/rules";

/** A response, as far as it is compared. */
export interface Seen {
  readonly step: string;
  readonly status: number;
  readonly type: string | undefined;
  readonly headers: Record<string, string>;
  readonly body: string;
}

/** One step: a number of equal requests, or a change of the time or of a block. */
type Step =
  | {
      readonly send: number;
      readonly to: string;
      readonly from?: string;
      readonly account?: string;
      readonly expect: string;
    }
  | { readonly advanceMs: number }
  | { readonly call: (abuse: Abuse) => Promise<unknown>; readonly expect: unknown };

const MINUTE = 60_000;
const LOGIN = "POST /login";
const READ = "GET /read";
const BLOCKED = "429 abnormal-usage-detected";
const LIMITED = "429 quota-exceeded";
const ALLOWED = "200 -";
const ADA = "203.0.113.7";

/** Three strikes block for 1 minute, then 2, then 4. One strike is forgotten per 10 minutes. */
const penalty = [
  { strikes: 3, block: "1m", factor: 2, maxBlock: "4m", forget: "10m" },
  { per: "ip+account", strikes: 2, block: "3m", maxBlock: "3m", forget: "10m" },
] as const;

/** The steps, in order. */
const TABLE: readonly Step[] = [
  // The first block: strikes 1 and 2 are denials, and strike 3 blocks, which its response says.
  { send: 5, to: LOGIN, expect: ALLOWED },
  { send: 2, to: LOGIN, expect: LIMITED },
  { call: (abuse) => abuse.status(`ip:${ADA}`), expect: undefined },
  { send: 1, to: LOGIN, expect: BLOCKED },
  { call: (abuse) => abuse.status(`ip:${ADA}`), expect: { retryAfterMs: MINUTE, strikes: 3 } },
  { send: 3, to: LOGIN, expect: BLOCKED },
  // No rule is a way around a block, and nobody else is blocked.
  { send: 2, to: READ, expect: BLOCKED },
  { send: 2, to: "GET /elsewhere", expect: BLOCKED },
  { send: 2, to: "GET /healthz", expect: ALLOWED },
  { send: 2, to: READ, from: "203.0.113.8", expect: ALLOWED },
  // Requests during a block don't prolong it.
  { advanceMs: MINUTE - 1 },
  { send: 1, to: READ, expect: BLOCKED },
  { advanceMs: 1 },
  { send: 1, to: READ, expect: ALLOWED },
  // The next strike blocks for twice as long.
  { send: 5, to: LOGIN, expect: ALLOWED },
  { send: 1, to: LOGIN, expect: BLOCKED },
  { call: (abuse) => abuse.status(`ip:${ADA}`), expect: { retryAfterMs: 2 * MINUTE, strikes: 4 } },
  { advanceMs: 2 * MINUTE },
  { send: 5, to: LOGIN, expect: ALLOWED },
  { send: 1, to: LOGIN, expect: BLOCKED },
  { call: (abuse) => abuse.status(`ip:${ADA}`), expect: { retryAfterMs: 4 * MINUTE, strikes: 5 } },
  // At the maximum, further strikes block for as long.
  { advanceMs: 4 * MINUTE },
  { send: 5, to: LOGIN, expect: ALLOWED },
  { send: 1, to: LOGIN, expect: BLOCKED },
  { call: (abuse) => abuse.status(`ip:${ADA}`), expect: { retryAfterMs: 4 * MINUTE, strikes: 5 } },
  // Nothing is forgotten during the block. After it, one strike is forgotten per 10 minutes: of 5 strikes 3 are left.
  { advanceMs: 4 * MINUTE + 20 * MINUTE },
  { send: 5, to: LOGIN, expect: ALLOWED },
  { send: 1, to: LOGIN, expect: BLOCKED },
  { call: (abuse) => abuse.status(`ip:${ADA}`), expect: { retryAfterMs: 2 * MINUTE, strikes: 4 } },
  // An operator may end a block, which keeps its strikes, and set one.
  { call: (abuse) => abuse.unblock(`ip:${ADA}`), expect: true },
  { call: (abuse) => abuse.unblock(`ip:${ADA}`), expect: false },
  { send: 1, to: READ, expect: ALLOWED },
  { call: (abuse) => abuse.block("ip:203.0.113.9", "7m"), expect: undefined },
  { send: 1, to: READ, from: "203.0.113.9", expect: BLOCKED },
  { call: (abuse) => abuse.status("ip:203.0.113.9"), expect: { retryAfterMs: 7 * MINUTE, strikes: 0 } },
  { advanceMs: 7 * MINUTE },
  { send: 1, to: READ, from: "203.0.113.9", expect: ALLOWED },
  // Strikes by the application.
  { call: (abuse) => abuse.strike("ip:203.0.113.10", 2), expect: undefined },
  { send: 1, to: READ, from: "203.0.113.10", expect: ALLOWED },
  { call: (abuse) => abuse.strike("ip:203.0.113.10"), expect: undefined },
  { send: 1, to: READ, from: "203.0.113.10", expect: BLOCKED },
  // A rule without `penalty` records no strikes, however often it denies.
  { send: 3, to: "GET /small", from: "203.0.113.11", expect: ALLOWED },
  { send: 9, to: "GET /small", from: "203.0.113.11", expect: LIMITED },
  { send: 1, to: READ, from: "203.0.113.11", expect: ALLOWED },
  // A cost that can never fit is no strike.
  { send: 9, to: "POST /upload", from: "203.0.113.12", expect: LIMITED },
  { send: 1, to: READ, from: "203.0.113.12", expect: ALLOWED },
  // A pair of address and account is blocked for rules with the account only, and for nobody else.
  { send: 3, to: "POST /session", from: "203.0.113.20", account: "bob", expect: ALLOWED },
  { send: 1, to: "POST /session", from: "203.0.113.20", account: "bob", expect: LIMITED },
  { send: 3, to: "POST /session", from: "203.0.113.20", account: "bob", expect: BLOCKED },
  { send: 1, to: "POST /session", from: "203.0.113.20", account: "eve", expect: ALLOWED },
  { send: 1, to: "POST /session", from: "203.0.113.21", account: "bob", expect: ALLOWED },
  { send: 1, to: READ, from: "203.0.113.20", account: "bob", expect: ALLOWED },
];

/** Sends the requests of the table to a middleware on a store. */
export async function runTable(store: Store, advance: (ms: number) => Promise<void> | void): Promise<Seen[]> {
  const data = {
    rules: [
      { name: "health", match: "GET /healthz", unlimited: true },
      { name: "login", match: LOGIN, limits: { ip: "5/m log" }, penalty: true },
      { name: "session", match: "POST /session", limits: { ip: "50/m", "ip+account": "3/h log" }, penalty: true },
      { name: "upload", match: "POST /upload", limits: { ip: "5/m of size" }, penalty: true },
      { name: "small", match: "GET /small", limits: { ip: "3/h" } },
      { name: "read", match: READ, limits: { ip: "100/m" } },
    ],
    fallback: { limits: { ip: "50/m" } },
  };
  const rules = loadRules(data, { store, facts: ["account", "size"], localDenialMs: 0, deadlineMs: 20_000 });
  const prevention = abuse({ penalty });
  const handler = rateLimit({
    rules,
    abuse: prevention,
    identity: { trustedProxies: 1, header: "x-client" },
    facts: { account: (request: Request) => request.headers.get("x-account") ?? undefined, size: () => 9 },
  })(() => new Response("ok"));
  const seen: Seen[] = [];
  for (const [i, step] of TABLE.entries()) {
    if ("advanceMs" in step) await advance(step.advanceMs);
    else if ("call" in step) {
      const result = await step.call(prevention);
      seen.push({ step: `${i}`, status: 0, type: undefined, headers: {}, body: JSON.stringify(result) ?? "" });
    } else {
      const [method = "", path] = step.to.split(" ");
      for (let n = 0; n < step.send; n++) {
        const headers = { "x-client": step.from ?? ADA, ...(step.account ? { "x-account": step.account } : {}) };
        const response = await handler(new Request(`http://localhost${path}`, { method, headers }));
        const body = await response.text();
        const type = response.status === 200 ? "-" : (JSON.parse(body) as { type: string }).type.split("#")[1];
        seen.push({
          step: `${i}.${n}`,
          status: response.status,
          type,
          headers: Object.fromEntries(response.headers),
          body,
        });
      }
    }
  }
  await rules.dispose();
  return seen;
}

/** What the table expects, in the form of `summaryOf`. */
export function expected(): string[] {
  return TABLE.flatMap((step, i) => {
    if ("advanceMs" in step) return [];
    if ("call" in step) return [`${i} ${JSON.stringify(step.expect) ?? ""}`];
    return Array.from({ length: step.send }, (_, n) => `${i}.${n} ${step.expect}`);
  });
}

/** The responses as short text. */
export function summaryOf(seen: readonly Seen[]): string[] {
  return seen.map(({ step, status, type, body }) => (status === 0 ? `${step} ${body}` : `${step} ${status} ${type}`));
}
