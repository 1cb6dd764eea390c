/** Real servers respond to unusual spellings of paths: the rule of the handler that responded is always charged. */

import { describe, expect, it } from "vitest";
import { scale, scaled } from "../../scripts/scale.js";
import { runSteps } from "../../src/base/slices.ts";
import { Matcher } from "../../src/rules/matching/matcher.ts";
import { type Pattern, parsePattern } from "../../src/rules/matching/pattern.ts";
import { randomFrom } from "../../src/testing/random.ts";
import { randomTarget } from "./random-targets.ts";
import { RawClient } from "./raw-client.ts";
import { hasExpress4, ROUTES, SERVERS, UNLIMITED } from "./spelling-servers.ts";

/** Targets per server. `node stress/run.js rules-spellings` sends 20 000. */
const TARGETS = scaled(300, 100);
const CONNECTIONS = 8;
const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));

const PATHS = [
  "/v1/login",
  "/v1/files/7",
  "/v1/acme/members",
  "/v1/other",
  "/healthz",
  "/static/a.js",
  "/v1/files/",
  "/",
];

const rules = ROUTES.map((route) => ({
  patterns: [parsePattern(route) as Pattern],
  isUnlimited: UNLIMITED.includes(route),
}));

/** What is wrong with a response, if anything. */
function problemOf(matcher: Matcher, route: string, target: string): string | undefined {
  const charged = matcher.find("GET", target).map(([first]) => (first ? ROUTES[first.rule] : "fallback"));
  const isExempt = charged.every((name) => name !== undefined && UNLIMITED.includes(name));
  if (isExempt === UNLIMITED.includes(route) && isExempt) return undefined;
  if (isExempt) return `${JSON.stringify(target)} reached ${route}, but is exempt`;
  if (UNLIMITED.includes(route)) return undefined;
  return charged.includes(route as (typeof ROUTES)[number])
    ? undefined
    : `${JSON.stringify(target)} reached ${route}, but is charged ${charged.join(", ")}`;
}

describe(`unusual spellings, seed ${seed}`, () => {
  // The stress test installs it.
  it.runIf(scale() > 1)("are sent to Express 4", () => expect(hasExpress4).toBe(true));

  it.each(SERVERS)("charge the rule of the handler that responds: $name", async ({ isCaseSensitive, start }) => {
    const random = randomFrom(seed);
    // Plain spellings come first, so that every handler responds whatever the seed.
    const targets = [...PATHS, ...Array.from({ length: TARGETS }, () => randomTarget(PATHS, random))];
    const matchers = [false, ...(isCaseSensitive ? [true] : [])].map((caseSensitive) =>
      runSteps(Matcher.build(rules, caseSensitive)),
    );
    const { port, close } = await start();
    const problems: string[] = [];
    const responses = new Map<string, number>();
    const send = async (from: number) => {
      const client = new RawClient(port);
      for (let i = from; i < targets.length; i += CONNECTIONS) {
        const body = await client.get(targets[i] as string);
        if (body === undefined) continue;
        const { route, target } = JSON.parse(/\{.*\}/.exec(body)?.[0] as string) as { route: string; target: string };
        responses.set(route, (responses.get(route) ?? 0) + 1);
        for (const matcher of matchers) {
          const problem = problemOf(matcher, route, target);
          if (problem) problems.push(problem);
        }
      }
      client.close();
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, (_, from) => send(from)));
    close();
    expect(problems).toEqual([]);
    // Every handler responded, so the check is not empty.
    expect([...responses.keys()].sort()).toEqual([...ROUTES].sort());
    const total = [...responses.values()].reduce((sum, count) => sum + count, 0);
    console.log(`${total} responses of ${targets.length}`);
  });
});
