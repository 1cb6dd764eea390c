/** Unusual spellings of paths against rules, on a real server: none may reach a handler whose rule is not charged. */
import { loadRules, type RuleSet } from "sluice/rules";
import type { RunningServer } from "sluice/testing";
import { describe, expect, it } from "vitest";
import { RawClient } from "../test/rules/raw-client.ts";

/** The routes of every app: the name of the handler, which is also that of its rule, and the path as a pattern. */
export const RULE_ROUTES = [
  ["login", "/v1/login"],
  ["file", "/v1/files/:id"],
  ["v1", "/v1/*"],
  ["health", "/healthz"],
] as const;

/** The name of a handler. */
export type RouteName = (typeof RULE_ROUTES)[number][0];

/** The options of `rateLimit`, for any server. */
export interface RuleOptions {
  readonly rules: RuleSet;
}

/** Starts an app with the routes behind `rateLimit(options)`. Its handlers respond with `responseHeaders`. */
export type StartRuleApp = (options: RuleOptions) => Promise<RunningServer>;

/** What a handler reports: its name, and the request target that the middleware sees. */
export function responseHeaders(name: RouteName, target: string | undefined): Record<string, string> {
  return { "X-Handler": name, "X-Target": encodeURIComponent(target ?? "") };
}

/** The handler of a path, for servers without a router. */
export function routeNameOf(path: string): RouteName | undefined {
  if (path === "/v1/login") return "login";
  if (/^\/v1\/files\/[^/]+$/.test(path)) return "file";
  if (path.startsWith("/v1/")) return "v1";
  return path === "/healthz" ? "health" : undefined;
}

/** A path of each route. */
const PATHS = ["/v1/login", "/v1/files/a7", "/v1/other", "/healthz"];

const first = (path: string) => path.split("/")[1] as string;
const rest = (path: string) => path.slice(first(path).length + 1);
const last = (path: string) => path.slice(path.lastIndexOf("/") + 1);
const before = (path: string) => path.slice(0, path.lastIndexOf("/"));
const encoded = (text: string) => `%${text.charCodeAt(0).toString(16)}${text.slice(1)}`;
const twice = (text: string) => `%25${text.charCodeAt(0).toString(16)}${text.slice(1)}`;
const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** Spellings of a path, each of which some router or proxy accepts. */
const SPELLINGS: readonly ((path: string) => string)[] = [
  (path) => path,
  (path) => `${path}?x=1`,
  (path) => `${path}?`,
  (path) => `${path}#x`,
  (path) => `${path}/`,
  (path) => `${path}//`,
  (path) => `/${path}`,
  (path) => `//${path}`,
  (path) => `/${first(path)}/${rest(path)}`,
  (path) => path.toUpperCase(),
  (path) => `/${capital(first(path))}${rest(path)}`,
  (path) => `${before(path)}/${capital(last(path))}`,
  (path) => `/${encoded(first(path))}${rest(path)}`,
  (path) => `${before(path)}/${encoded(last(path))}`,
  (path) => `${before(path)}/${encoded(capital(last(path)))}`,
  (path) => `${before(path)}/${twice(last(path))}`,
  (path) => `${before(path)}%2f${last(path)}`,
  (path) => `${before(path)}%2F${last(path)}`,
  (path) => `${before(path)}%5c${last(path)}`,
  (path) => `${before(path)}\\${last(path)}`,
  (path) => `/.${path}`,
  (path) => `/x/..${path}`,
  (path) => `${before(path)}/./${last(path)}`,
  (path) => `${before(path)}/x/../${last(path)}`,
  (path) => `${before(path)}/%2e/${last(path)}`,
  (path) => `/x/%2e%2e${path}`,
  (path) => `/x/.%2E${path}`,
  (path) => `/healthz/..${path}`,
  (path) => `/healthz/%2e%2e${path}`,
  (path) => `${path}/.`,
  (path) => `${path}/x/..`,
  (path) => `${path}%2f`,
  (path) => `${path}%20`,
  (path) => `${path}%00`,
  (path) => `${path};x=1`,
  (path) => `${path}.`,
  (path) => `http://localhost${path}`,
  (path) => `HTTP://other.example:80${path.toUpperCase()}`,
  (path) => `${path}/../healthz`,
  (path) => `${path}?/../../healthz`,
];

/** Rules named like the handlers, with these limits per route. */
function rulesWith(limit: number): RuleSet {
  const limits = { ip: `${limit}/d fixed` };
  return loadRules(
    {
      rules: RULE_ROUTES.map(([name, match]) => {
        return name === "health" ? { name, match, unlimited: true } : { name, match, limits };
      }),
      fallback: { limits: { ip: "100000/d fixed" } },
    },
    { facts: [] },
  );
}

/** The names of the policies that a response says were charged. */
export function policiesOf(field: string | undefined): string[] {
  return [...(field ?? "").matchAll(/"([^"]+)";q=/g)].map(([, name]) => name as string);
}

/** Runs the tests of rules on one server. */
export function ruleSpellings(server: string, start: StartRuleApp): void {
  const targets = PATHS.flatMap((path) => SPELLINGS.map((spell) => spell(path)));

  const sendAll = async (port: number) => {
    const client = new RawClient(port);
    const responses = [];
    for (const target of targets) responses.push({ target, response: await client.send(target) });
    client.close();
    return responses;
  };

  describe(`${server}, spellings of paths against rules`, () => {
    it("sends 40 distinct spellings of a path", () => {
      expect(new Set(SPELLINGS.map((spell) => spell("/v1/login"))).size).toBe(40);
    });

    it("charges the rule of the handler that responds, and exempts one path only", async ({ task }) => {
      const { url, close } = await start({ rules: rulesWith(1000) });
      const reached = new Map<string, number>();
      const problems: string[] = [];
      let exempt = 0;
      for (const { target, response } of await sendAll(Number(new URL(url).port))) {
        const handler = response.header("X-Handler");
        if (handler === undefined) continue;
        reached.set(handler, (reached.get(handler) ?? 0) + 1);
        const seen = decodeURIComponent(response.header("X-Target") ?? "").split("?", 1)[0];
        const charged = policiesOf(response.header("RateLimit-Policy"));
        const isExempt = charged.length === 0;
        if (isExempt) exempt++;
        if (isExempt && !(handler === "health" && seen === "/healthz")) problems.push(`${target} is exempt`);
        if (!isExempt && handler === "health" && seen === "/healthz") problems.push(`${target} is charged`);
        if (handler !== "health" && !charged.includes(`${handler}.ip`)) {
          problems.push(`${target} reached ${handler}, but is charged ${charged.join(", ") || "nothing"}`);
        }
      }
      await close();
      expect(problems).toEqual([]);
      // Every handler has responded to several spellings, so the check is not empty.
      for (const [name] of RULE_ROUTES) expect(reached.get(name), name).toBeGreaterThan(2);
      const counts = [...reached].map(([name, count]) => `${name} ${count}`).join(", ");
      Object.assign(task.meta, { figures: `${targets.length} targets, reached: ${counts}; exempt ${exempt}` });
    });

    it("rejects every spelling when plain requests have used up the limit", async ({ task }) => {
      const { url, close } = await start({ rules: rulesWith(1) });
      const port = Number(new URL(url).port);
      const client = new RawClient(port);
      for (const path of ["/v1/login", "/v1/files/7", "/v1/other"]) {
        expect((await client.send(path)).status, path).toBe(200);
        expect((await client.send(path)).status, path).toBe(429);
      }
      client.close();
      const responses = await sendAll(port);
      await close();
      const passed = responses.filter(({ response }) => (response.header("X-Handler") ?? "health") !== "health");
      expect(passed.map(({ target }) => target)).toEqual([]);
      const denied = responses.filter(({ response }) => response.status === 429).length;
      expect(denied).toBeGreaterThan(40);
      Object.assign(task.meta, { figures: `${targets.length} targets, ${denied} rejected with 429` });
    });
  });
}
