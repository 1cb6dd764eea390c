/** Parses limits: of a rule, of a budget, by identity and by plan. */
import { show } from "../base/errors.ts";
import { isFact, parsePer } from "../http/identity/identities.ts";
import { at, type Issues, type Place, quoted } from "./issues.ts";
import type { CompiledSpec, LimitTexts } from "./limit-text.ts";
import { isMembers, type Members, objectAt } from "./members.ts";
import type { ParsedLimit } from "./parsed-rules.ts";
import type { Action } from "./rules-data.ts";

/** What all parts of a file share while it is parsed. */
export interface ParseContext {
  readonly issues: Issues;
  readonly texts: LimitTexts;
  /** The facts that were found. */
  readonly facts: Set<string>;
  /** The plans; `undefined`: they are invalid, so names of plans are not checked. */
  readonly plans: readonly string[] | undefined;
}

/** A limit while the file is parsed: its specs have the numbers of their policies. */
export interface CompiledLimit extends ParsedLimit {
  readonly spec: CompiledSpec | ReadonlyMap<string, CompiledSpec>;
}

/** Limits of one identity, as written. */
export interface WrittenLimit {
  readonly per: string;
  readonly value: unknown;
  readonly place: Place;
  /** Where each item of `value` was written, if that is not below `place`. */
  readonly itemPlaces?: readonly Place[];
}

const MAX_NAME_CHARS = 64;
/** Every limit may have overrides, so that its name has room for this. */
const OVERRIDE = "@override";

/** The limits of an object by identity. */
export function writtenLimits(issues: Issues, place: Place, value: unknown): WrittenLimit[] {
  if (value === undefined) return [];
  const members = objectAt(issues, place, value, 'an object such as { "client": "10/s burst 50" }') ?? {};
  return Object.entries(members).map(([per, value]) => ({ per, value, place: at(place, per) }));
}

/** Parses the limits of one identity. The first one is called `name`, the second one `name.2`. */
export function parseLimits(
  context: ParseContext,
  { per, value, place, itemPlaces }: WrittenLimit,
  name: string,
  action: Action = "deny",
): CompiledLimit[] {
  const { issues, facts } = context;
  const identities = parsePer(per);
  if (typeof identities === "string") {
    issues.add(place, `${show(per)} ${identities}`);
    return [];
  }
  for (const identity of identities) if (isFact(identity)) facts.add(identity);
  const items = Array.isArray(value) ? value : [value];
  if (items.length === 0) issues.add(place, "needs at least one limit");
  return items.flatMap((item, i) => {
    const itemPlace = itemPlaces?.[i] ?? (Array.isArray(value) ? at(place, i) : place);
    const ownName = i === 0 ? name : `${name}.${i + 1}`;
    const spec = parseSpec(context, itemPlace, item);
    return spec && checkName(context, itemPlace, ownName, spec)
      ? [Object.freeze({ name: ownName, per, identities, action, spec })]
      : [];
  });
}

/** Parses one limit for all plans, or one for each. */
function parseSpec(context: ParseContext, place: Place, value: unknown): CompiledLimit["spec"] | undefined {
  if (isMembers(value)) return parseByPlan(context, place, value);
  return parseLimitText(context, place, value);
}

/** Parses the text of a limit. */
export function parseLimitText(context: ParseContext, place: Place, value: unknown): CompiledSpec | undefined {
  const { issues, texts, facts } = context;
  if (typeof value !== "string") {
    issues.addType(place, 'a limit such as "10/s burst 50"');
    return undefined;
  }
  const spec = texts.parse(value);
  if (typeof spec === "string") {
    issues.add(place, spec);
    return undefined;
  }
  if (spec.of !== undefined) facts.add(spec.of);
  return spec;
}

function parseByPlan(
  context: ParseContext,
  place: Place,
  value: Members,
): ReadonlyMap<string, CompiledSpec> | undefined {
  const { issues, plans, facts } = context;
  if (plans?.length === 0) {
    issues.add(place, "a limit for each plan needs plans and defaultPlan; add them, or write one limit");
    return undefined;
  }
  facts.add("plan");
  const before = issues.count;
  const specs = new Map<string, CompiledSpec>();
  for (const plan of Object.keys(value)) {
    const planPlace = at(place, plan);
    if (plans && !plans.includes(plan)) {
      issues.add(planPlace, () => unknownPlan(plan, plans));
      continue;
    }
    const spec = parseLimitText(context, planPlace, value[plan]);
    if (spec) specs.set(plan, spec);
  }
  if (!plans && Object.keys(value).length === 0) issues.add(place, "needs a limit for each plan");
  const missing = (plans ?? []).filter((plan) => !Object.hasOwn(value, plan));
  if (missing.length > 0) {
    issues.add(place, `missing a limit for ${missing.length > 1 ? "plans" : "plan"} ${quoted(missing)}`);
  }
  return issues.count === before ? specs : undefined;
}

/** The message for the name of a plan that does not exist. */
export function unknownPlan(plan: string, plans: readonly string[]): string {
  if (plans.length === 0) return `unknown plan ${show(plan)}; there are no plans`;
  return `unknown plan ${show(plan)}; ${plans.length > 1 ? "the plans are" : "the only plan is"} ${quoted(plans)}`;
}

/** Reports a name that is too long for headers and stored keys. */
function checkName({ issues }: ParseContext, place: Place, name: string, spec: CompiledLimit["spec"]): boolean {
  const names = [OVERRIDE, ...(spec instanceof Map ? [...spec.keys()].map((plan) => `@${plan}`) : [])];
  const longest = name.length + Math.max(...names.map(({ length }) => length));
  if (longest <= MAX_NAME_CHARS) return true;
  const message = `the name ${show(name)} is too long: with its plan or "${OVERRIDE}" it has ${longest} characters, and at most ${MAX_NAME_CHARS} are allowed`;
  issues.add(place, message);
  return false;
}

/** The specs of a limit, each with its plan. */
export function specsOf({ spec }: CompiledLimit): readonly (readonly [plan: string | undefined, CompiledSpec])[] {
  return spec instanceof Map ? [...spec] : [[undefined, spec as CompiledSpec]];
}
