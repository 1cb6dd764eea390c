/** Describes rules as text, for people: what applies to one request, or a table of all rules. */
import { missingParts } from "../http/identity/identities.ts";
import type { CompiledRule, RuleCharge } from "./compiled-rules.ts";
import { isWithout } from "./parse-without.ts";
import { isByPlan, type ParsedLimit, type ParsedRule } from "./parsed-rules.ts";
import type { RuleEngine } from "./rule-engine.ts";
import { type ExplainedRule, rulesOf } from "./rule-match.ts";
import type { FactValues } from "./rules-data.ts";

/** Describes what one request is charged. */
export function explainRequest(engine: RuleEngine, method: string, path: string, facts: FactValues<string>): string {
  const { rules, isExempt } = rulesOf(engine, method, path, facts);
  const names = rules.map(({ found }) => `rule "${found.compiled.rule.name}"`);
  const [{ found }] = rules as [ExplainedRule];
  const where = rules.length > 1 ? "unusual path: every rule that a router could apply" : whereOf(found.compiled.rule);
  const head = `${method} ${path}  ->  ${names.join(", ")} (${where})`;
  if (isExempt) return `${head}\n  Not limited and not counted.\n`;
  const rows = rules.flatMap(({ found, charges }) =>
    charges.map(({ charge, amount, unknown }) => [
      charge.part.policy.name,
      charge.limit.per,
      charge.text,
      amountText(charge, amount),
      sharedBy(engine, charge, found.compiled),
      chargeNotes(charge, unknown),
    ]),
  );
  const table = columns([["policy", "per", "limit", "charge", "shared by"], ...rows], [3]);
  return `${head}\n${table}\n${summary(rules)}\n`;
}

/** Lists all rules, one line per pattern. */
export function explainRules(engine: RuleEngine): string {
  const rows = [...engine.rules, engine.fallback].flatMap((compiled) => {
    const { rule } = compiled;
    const limits = rule.isUnlimited ? "unlimited" : limitsText(rule);
    const budgets = rule.budgets.map(({ name }) => (rule.weight === 1 ? name : `${name} x${rule.weight}`)).join(", ");
    const patterns = rule.patterns.length > 0 ? rule.patterns.map(({ text }) => text) : ["(any other request)"];
    return patterns.map((pattern, i) =>
      i === 0 ? [rule.name, pattern, limits, budgets || "-", notesOf(rule)] : ["", pattern, "", "", ""],
    );
  });
  return `${columns([["rule", "match", "own limits", "budgets", "settings"], ...rows], [])}\n`;
}

function whereOf({ path, name }: ParsedRule): string {
  return name === "fallback" ? "no rule matches" : `${path}, first match`;
}

function amountText({ of, mode }: RuleCharge, amount: number): string {
  if (mode === "lease") return `${amount} in flight`;
  if (of === undefined) return String(amount);
  return mode === "hold" ? `${amount} ${of} held` : `${amount} ${of}`;
}

/** Whether a charge is enforced, and for whom. */
function chargeNotes({ group, limit }: RuleCharge, unknown: readonly string[]): string {
  const without = unknown.map((part) => `without ${part}`).join(" or ");
  return [
    ...(group === "enforced" ? [] : [`not enforced (${group})`]),
    ...(without ? [`${limit.without ? "applies" : "does not apply"} ${without}`] : []),
  ].join(", ");
}

/** How many rules charge a policy. */
function sharedBy({ rules, fallback }: RuleEngine, { limit }: RuleCharge, { rule }: CompiledRule): string {
  if (rule.limits.includes(limit)) return "-";
  const users = [...rules, fallback].filter(({ rule }) => rule.budgets.some(({ limits }) => limits.includes(limit)));
  return users.length === 1 ? "1 rule" : `${users.length} rules`;
}

const WITHOUT_STORE = {
  local: "limited per process",
  open: "not limited",
  closed: "rejected with 503",
  throw: "passed to onError",
} as const;

function summary(rules: readonly ExplainedRule[]): string {
  const keys = new Set(rules.flatMap(({ charges }) => charges.map(({ charge }) => charge.limit.per)));
  const steps =
    keys.size === 1
      ? "Every store: one step."
      : `Redis: one round trip. Redis Cluster, Durable Objects: ${keys.size} keys, so check, take, refund.`;
  const failures = new Set(rules.map(({ found }) => WITHOUT_STORE[found.compiled.rule.onStoreError]));
  return `All or nothing. ${steps} Store unavailable: ${[...failures].join(", ")}.`;
}

function limitsText({ limits }: ParsedRule): string {
  const own = limits.filter(({ without }) => !without);
  const texts = own.map(({ per, identities, spec }) => {
    const missing = missingParts(identities);
    const others = limits.filter((other) => isWithout(other, per)).map(({ spec }) => specText(spec));
    const note = `without ${missing.join(" or ")}`;
    const rest = others.length > 0 ? `${note}: ${others.join(" and ")}` : `does not apply ${note}`;
    return `${per} ${specText(spec)}${missing.length > 0 ? ` (${rest})` : ""}`;
  });
  // Those of budgets, whose limits are not the rule's own.
  const shared = limits.flatMap(({ without = [], spec }) => {
    const per = without.join("+");
    return without.length === 0 || own.some((limit) => limit.per === per) ? [] : [`without ${per}: ${specText(spec)}`];
  });
  return [...texts, ...shared].join("; ") || "-";
}

function specText(spec: ParsedLimit["spec"]): string {
  if (!isByPlan(spec)) return spec.text;
  return `{ ${[...spec].map(([plan, { text }]) => `${plan}: ${text}`).join(", ")} }`;
}

/** The settings that differ from the defaults. */
function notesOf({ mode, onStoreError, refundIf, when, perPattern, holdMs, limits }: ParsedRule): string {
  const actions = limits.filter(({ action }) => action !== "deny").map(({ per, action }) => `${per}: ${action}`);
  return [
    ...when.map(({ fact, values }) => `when ${fact} is ${values.join(" or ")}`),
    ...(mode === "shadow" ? ["shadow"] : []),
    ...(onStoreError === "local" ? [] : [onStoreError]),
    ...(refundIf ? [refundIf === "reported" ? "refund if reported as succeeded" : `refund if ${refundIf}`] : []),
    ...(perPattern ? ["per pattern"] : []),
    ...(holdMs === undefined ? [] : [`hold ${holdMs} ms`]),
    ...actions,
  ].join(", ");
}

/** Aligns rows in columns. The columns at `right` are aligned to the right. */
function columns(rows: readonly (readonly string[])[], right: readonly number[]): string {
  const count = Math.max(...rows.map((row) => row.length));
  const widths = Array.from({ length: count }, (_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, i) => (right.includes(i) ? cell.padStart(widths[i] as number) : cell.padEnd(widths[i] as number)))
      .join("   ");
  return rows.map((row) => `  ${line(row)}`.trimEnd()).join("\n");
}
