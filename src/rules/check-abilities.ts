/** Checks that an application provides what its rules need: facts, and features that they name. */
import { SluiceError } from "../base/errors.ts";
import { canBeFact } from "../http/identity/identities.ts";
import type { AbuseAbilities } from "../http/request-charges.ts";
import { closest } from "./closest.ts";
import { at, Issues, invalidRules, type Place, quoted, ROOT } from "./issues.ts";
import { isByPlan, type ParsedLimit, type ParsedRule, type ParsedRules } from "./parsed-rules.ts";

/** Throws if rules use facts that the application did not declare. `bot` may be that of a signal. */
export function checkFacts(rules: ParsedRules, declared: readonly string[]): void {
  if (!Array.isArray(declared) || !declared.every((name) => typeof name === "string" && canBeFact(name))) {
    const expected = 'a list of names such as ["tenant", "plan"], without ip, network, client and global';
    throw new SluiceError("invalid-option", `facts must be ${expected}.`, {
      option: "facts",
      expected,
      received: declared,
    });
  }
  const issues = new Issues();
  for (const { fact, place } of usesOf(rules)) {
    if (declared.includes(fact) || isVerified(fact) || fact === "bot") continue;
    const known = declared.length > 0 ? `the facts are ${quoted(declared)}` : "no facts are declared";
    issues.addUnknown(place, "fact", fact, declared, known);
  }
  if (issues.count > 0) throw invalidRules(issues.list);
}

/** What a middleware provides for rules: functions of facts, and what abuse prevention adds. */
export interface Abilities {
  readonly facts: readonly string[];
  readonly abuse: AbuseAbilities | undefined;
}

/** Throws if a middleware lacks what rules need. */
export function checkAbilities(rules: ParsedRules, { facts, abuse }: Abilities): void {
  for (const rule of [...rules.rules, rules.fallback]) {
    const missing = missingAbility(rule, abuse);
    if (missing) throw new SluiceError("invalid-option", missing.message, missing);
  }
  if (abuse?.hasStrikes && !abuse.hasTraps) checkPenalized(rules);
  for (const name of facts) {
    if (canBeFact(name)) continue;
    const message = `facts.${name}: this name is a built-in identity or not the name of a fact, which is like "tenant".`;
    throw new SluiceError("invalid-option", message, { option: `facts.${name}`, expected: "the name of a fact" });
  }
  const unused = facts.filter((name) => !rules.facts.includes(name));
  for (const fact of rules.facts) {
    if (facts.includes(fact) || isVerified(fact) || abuse?.mayProvide(fact)) continue;
    const uses = usesOf(rules).filter((use) => use.fact === fact);
    const users = [...new Set(uses.flatMap(({ rules }) => rules))];
    const verb = uses.some(({ isCondition }) => isCondition) ? "depend on it" : "are limited by it";
    const subject =
      users.length === 1
        ? `rule ${quoted(users)} ${verb.replace("are", "is").replace("depend", "depends")}`
        : `rules ${quoted(users)} ${verb}`;
    const source = fact === "bot" ? "missing a function, or abuse({ signals })" : "missing a function";
    const misspelt = closest(fact, unused);
    const hint = misspelt === undefined ? "" : ` No rule uses facts.${misspelt}; did you mean facts.${fact}?`;
    const message = `facts.${fact}: ${source}; ${subject}.${hint}`;
    throw new SluiceError("invalid-option", message, { option: `facts.${fact}`, expected: "a function" });
  }
}

/** A penalty without strikes never blocks a key. If that is intended, a rule has `penalty: false`. */
function checkPenalized({ rules, fallback, data }: ParsedRules): void {
  if ([...rules, fallback].some(({ penalty }) => penalty)) return;
  if ([...data.rules, data.fallback].some((rule) => typeof rule === "object" && rule.penalty === false)) return;
  const message =
    "abuse({ penalty }) would never block a client, because no rule has penalty: true. Set it in the rules whose denials are strikes. If only block(), strike() or another middleware use the penalty, set penalty: false in the fallback.";
  throw new SluiceError("invalid-option", message, { option: "penalty", expected: "a rule with penalty: true" });
}

/** What a rule needs from abuse prevention that is missing: the option, and a sentence about it. */
export function missingAbility(
  rule: ParsedRule,
  abuse: AbuseAbilities | undefined,
): { readonly option: string; readonly expected: string; readonly message: string } | undefined {
  const challenged = rule.limits.find(({ action }) => action === "challenge");
  if (challenged && !abuse?.hasChallenge) {
    const option = `${rule.path}.action`;
    const message = `${option}: "challenge" for "${challenged.per}" needs abuse({ challenge }); configure it or choose another action.`;
    return { option, expected: "abuse({ challenge })", message };
  }
  if (rule.penalty && !abuse?.hasStrikes) {
    const option = `${rule.path}.penalty`;
    const message = `${option}: needs abuse({ penalty }), which counts strikes; configure it or set penalty: false.`;
    return { option, expected: "abuse({ penalty })", message };
  }
  return undefined;
}

/** Whether `identity` may provide it instead of a function. */
function isVerified(fact: string): boolean {
  return fact === "user" || fact === "apiKey";
}

/** One use of a fact. */
interface FactUse {
  readonly fact: string;
  readonly place: Place;
  /** The rules that use it. */
  readonly rules: readonly string[];
  /** Whether it is a condition of a rule. */
  readonly isCondition: boolean;
}

function usesOf({ rules, fallback, budgets, facts }: ParsedRules): FactUse[] {
  const ofLimits = (limits: readonly ParsedLimit[], place: Place, users: readonly string[]): FactUse[] =>
    limits.flatMap((limit) => {
      const specs = isByPlan(limit.spec) ? [...limit.spec.values()] : [limit.spec];
      const counted = specs.flatMap(({ of }) => (of === undefined ? [] : [of]));
      const names = new Set([...limit.identities, ...counted, ...(isByPlan(limit.spec) ? ["plan"] : [])]);
      return [...names]
        .filter((fact) => facts.includes(fact))
        .map((fact) => ({ fact, place: at(place, limit.per), rules: users, isCondition: false }));
    });
  const all = [...rules, fallback];
  const ofRule = (rule: ParsedRule, index: number): FactUse[] => {
    const place = rule === fallback ? at(ROOT, "fallback") : at(at(ROOT, "rules"), index);
    const conditions = rule.when.map(({ fact }) => ({
      fact,
      place: at(at(place, "when"), fact),
      rules: [rule.name],
      isCondition: true,
    }));
    return [...ofLimits(rule.limits, at(place, "limits"), [rule.name]), ...conditions];
  };
  const ofBudgets = budgets.flatMap((budget) => {
    const users = all.filter((rule) => rule.budgets.includes(budget)).map(({ name }) => name);
    return ofLimits(budget.limits, at(at(ROOT, "budgets"), budget.name), users);
  });
  return [...all.flatMap(ofRule), ...ofBudgets];
}
