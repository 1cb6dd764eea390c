/** Parses plans and budgets, which rules refer to by name. */
import { show } from "../base/errors.ts";
import { at, type Issues, type Place, quoted, ROOT } from "./issues.ts";
import { isNameKey, type Members, nameAt, objectAt } from "./members.ts";
import { type CompiledLimit, type ParseContext, parseLimits, unknownPlan, writtenLimits } from "./parse-limits.ts";
import type { ParsedBudget } from "./parsed-rules.ts";

/** Above this, a rule with limits by plan is hard to read; overrides are meant for single keys. */
const MAX_PLANS = 100;

/** A budget while the file is parsed. */
export interface CompiledBudget extends ParsedBudget {
  readonly limits: readonly CompiledLimit[];
}

/** Budgets by name. `undefined`: the budget is invalid. */
export type Budgets = ReadonlyMap<string, CompiledBudget | undefined>;

/** Parses `plans` and `defaultPlan`. Returns `undefined` if the plans are invalid. */
export function parsePlans(issues: Issues, { plans, defaultPlan }: Members): readonly string[] | undefined {
  const [place, defaultPlace] = [at(ROOT, "plans"), at(ROOT, "defaultPlan")];
  if (plans === undefined) {
    if (defaultPlan !== undefined) issues.add(defaultPlace, "needs plans");
    return [];
  }
  if (!Array.isArray(plans)) {
    issues.addType(place, "a list of names");
    return undefined;
  }
  const before = issues.count;
  if (plans.length === 0) issues.add(place, "needs at least one plan");
  if (plans.length > MAX_PLANS) issues.add(place, `has more than ${MAX_PLANS} plans; use overrides`);
  const names = new Set<string>();
  for (const [i, plan] of plans.entries()) {
    const name = nameAt(issues, at(place, i), plan);
    if (name === undefined) continue;
    if (name === "override") issues.add(at(place, i), '"override" is reserved for overrides; rename the plan');
    if (names.has(name)) issues.add(at(place, i), `plan ${show(name)} is listed twice`);
    names.add(name);
  }
  const isValid = issues.count === before;
  if (defaultPlan === undefined) {
    issues.add(defaultPlace, "missing; name the plan of callers whose plan is unknown");
  } else if (isValid && !names.has(defaultPlan as string)) {
    if (typeof defaultPlan === "string") issues.add(defaultPlace, unknownPlan(defaultPlan, [...names]));
    else issues.addType(defaultPlace, "the name of a plan");
  }
  return isValid ? [...names] : undefined;
}

/** Parses `budgets`. */
export function parseBudgets(context: ParseContext, value: unknown): Budgets {
  const { issues } = context;
  const place = at(ROOT, "budgets");
  const budgets = new Map<string, CompiledBudget | undefined>();
  const members = value === undefined ? {} : (objectAt(issues, place, value, "an object of budgets by name") ?? {});
  for (const [name, limits] of Object.entries(members)) {
    const budgetPlace = at(place, name);
    budgets.set(
      name,
      isNameKey(issues, budgetPlace, name) ? parseBudget(context, budgetPlace, name, limits) : undefined,
    );
  }
  return budgets;
}

function parseBudget(context: ParseContext, place: Place, name: string, value: unknown): CompiledBudget | undefined {
  const { issues } = context;
  const before = issues.count;
  const written = writtenLimits(issues, place, value);
  if (written.length > 1) {
    const identities = quoted(written.map(({ per }) => per));
    const count = written.length === 2 ? "two" : written.length;
    issues.add(place, `a budget has one identity, but this one has ${identities}; define ${count} budgets`);
  } else if (written.length === 0 && issues.count === before) {
    issues.add(place, 'a budget needs a limit, such as { "tenant": "100/m" }');
  }
  const limits = written.flatMap((limit) => parseLimits(context, limit, name));
  return issues.count === before ? Object.freeze({ name, limits: Object.freeze(limits) }) : undefined;
}

/** Parses a list of names of budgets. An item is `undefined` if its budget is unknown or invalid. */
export function parseBudgetNames(
  issues: Issues,
  place: Place,
  value: unknown,
  budgets: Budgets,
): (CompiledBudget | undefined)[] {
  if (!Array.isArray(value)) {
    issues.addType(place, "a list of names of budgets");
    return [undefined];
  }
  const seen = new Set<unknown>();
  return value.map((name, i) => {
    if (typeof name !== "string") issues.addType(at(place, i), "the name of a budget");
    else if (!budgets.has(name)) issues.add(at(place, i), () => unknownBudget(name, [...budgets.keys()]));
    else if (seen.has(name)) issues.add(at(place, i), `budget ${show(name)} is listed twice`);
    seen.add(name);
    return budgets.get(name);
  });
}

function unknownBudget(name: string, names: readonly string[]): string {
  if (names.length === 0) return `unknown budget ${show(name)}; there are no budgets`;
  return `unknown budget ${show(name)}; ${names.length > 1 ? "the budgets are" : "the only budget is"} ${quoted(names)}`;
}
