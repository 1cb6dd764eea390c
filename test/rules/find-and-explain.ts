/** Compares what `find` returns for a request with the text of `explain`. */
import type { RuleSet } from "sluice/rules";
import type { ParsedRules } from "../../src/rules/parsed-rules.ts";
import type { Random } from "../../src/testing/random.ts";
import { randomTarget } from "./random-targets.ts";

/** A request with known facts. */
export interface ExplainedRequest {
  readonly method: string;
  readonly path: string;
  readonly facts: Readonly<Record<string, string | number>>;
}

const METHODS = ["GET", "POST", "HEAD", "DELETE", "get", "PROPFIND"];
const TEXTS = ["acme", "likely", "certain", "x+y", "%", "toString"];

/** A request that is usually matched by one of the rules, sometimes in an unusual spelling. */
export function randomRequest({ rules, plans, facts }: ParsedRules, random: Random): ExplainedRequest {
  const patterns = rules.flatMap((rule) => rule.patterns.map(({ text }) => text.slice(text.indexOf("/"))));
  const path = random.pick([...patterns, "/", "/nowhere"]).replace(/:[^/]+/g, "7");
  const filled = path.endsWith("*") ? path.slice(0, -1) + random.pick(["", "a", "a/b"]) : path;
  const known = facts.filter(() => random.whole(1, 5) > 1);
  const valueFor = (name: string) => {
    if (name === "plan") return random.pick([...plans, "gold"]);
    return name === "tokens" ? random.whole(0, 5000) : random.pick(TEXTS);
  };
  return {
    method: random.pick(METHODS),
    path: randomTarget([filled], random, random.pick([0, 0, 2])),
    facts: Object.fromEntries(known.map((name) => [name, valueFor(name)])),
  };
}

/** Throws if `find` and `explain` differ on the rule, or on the name, limit or amount of a policy. Returns their number. */
export function expectAgreement(rules: RuleSet, { method, path, facts }: ExplainedRequest): number {
  const { rule, policies } = rules.find(method, path, facts);
  const text = rules.explain(method, path, facts);
  const head = text.slice(0, text.indexOf("\n", method.length + path.length));
  const named = /^ {2}-> {2}rule "([^"]*)"/.exec(head.slice(`${method} ${path}`.length))?.[1];
  if (named !== rule) throw new Error(`find has ${rule}, explain has ${named}`);
  const rows = text
    .slice(head.length + 1)
    .split("\n")
    .filter((line) => line.startsWith("  "));
  if (policies.length === 0) {
    if (!rows[0]?.includes("Not limited")) throw new Error("find has no policies, explain has");
    return 0;
  }
  const explained = rows.slice(1).map((line) => line.trim().split(/ {3,}/).slice(0, 4));
  const found = policies.map(({ name, per, limit, amount }) => [name, per, limit, String(amount)]);
  const told = explained.map(([name, per, limit, charge = ""]) => [name, per, limit, charge.split(" ", 1)[0]]);
  if (JSON.stringify(found) !== JSON.stringify(told)) {
    throw new Error(`find has ${JSON.stringify(found)}, explain has ${JSON.stringify(told)}`);
  }
  return policies.length;
}
