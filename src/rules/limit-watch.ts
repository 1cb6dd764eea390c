/** Reports limits that never apply, because a fact is unknown in every request: nothing else would show it. */
import { BoundedMap } from "../base/bounded-map.ts";
import { missingParts } from "../http/identity/identities.ts";
import type { RequestValues } from "../http/request-values.ts";
import { quoted } from "./issues.ts";
import type { ParsedLimit, ParsedRule } from "./parsed-rules.ts";

/** Requests that a limit is watched for. */
const SAMPLE = 100;
/** More than the limits of a rule set. Those of rules that were replaced by others are dropped. */
const MAX_LIMITS = 10_000;
/** The count of a limit that has applied, or was reported. */
const SETTLED = -1;

/** Called with the name of a limit, and a sentence. */
type Report = (limit: string, message: string) => void;

/** The limits of one rule set that have not applied yet. They are kept when the rules are replaced. */
export class LimitWatches {
  /** How many requests a limit did not apply to, by its name. */
  private readonly misses: BoundedMap<string, number> = new BoundedMap({ maxEntries: MAX_LIMITS });
  private readonly report: Report;

  constructor(report: Report) {
    this.report = report;
  }

  /** Watches a rule. `undefined`: all of its limits apply to every caller, or have applied. */
  watch(rule: ParsedRule): RuleWatch | undefined {
    const { misses, report } = this;
    const limits = [...rule.limits, ...rule.budgets.flatMap((budget) => budget.limits)];
    const watched = limits.filter((limit) => mayBeUnknown(limit) && misses.get(limit.name) !== SETTLED);
    return watched.length > 0 ? new RuleWatch(rule, new Set(watched), misses, report) : undefined;
  }
}

/** A clearance is unknown until a caller has solved a challenge. */
function mayBeUnknown({ identities, without }: ParsedLimit): boolean {
  return !without && missingParts(identities).length > 0 && !identities.includes("clearance");
}

/** The limits of one rule. */
export class RuleWatch {
  private readonly rule: ParsedRule;
  private readonly watched: Set<ParsedLimit>;
  private readonly misses: BoundedMap<string, number>;
  private readonly report: Report;

  constructor(rule: ParsedRule, watched: Set<ParsedLimit>, misses: BoundedMap<string, number>, report: Report) {
    this.rule = rule;
    this.watched = watched;
    this.misses = misses;
    this.report = report;
  }

  /** Counts a request whose keys are known. Returns whether further ones are of interest. */
  record(charges: readonly { readonly limit: ParsedLimit }[], values: RequestValues): boolean {
    const unapplied = new Map<string, ParsedLimit[]>();
    for (const { limit } of charges) {
      if (!this.watched.has(limit)) continue;
      const { name, identities } = limit;
      const count = this.misses.get(name) ?? 0;
      const missing = count === SETTLED ? undefined : unknownParts(values, identities)[0];
      const isDue = missing !== undefined && count + 1 >= SAMPLE;
      const isSettled = missing === undefined || isDue;
      this.misses.set(name, isSettled ? SETTLED : count + 1);
      if (isSettled) this.watched.delete(limit);
      if (isDue) unapplied.set(missing, [...(unapplied.get(missing) ?? []), limit]);
    }
    for (const [fact, limits] of unapplied) this.reportAll(fact, limits, values);
    return this.watched.size > 0;
  }

  private reportAll(fact: string, limits: readonly ParsedLimit[], values: RequestValues): void {
    const { rule } = this;
    const [{ name, per }] = limits as [ParsedLimit];
    const subject = `${limits.length > 1 ? "Limits" : "Limit"} ${quoted(limits.map(({ name }) => name))}`;
    const problem = `${subject} of rule ${quoted([rule.name])} applied to none of the first ${SAMPLE} matching requests, because ${fact} was unknown.`;
    if (values.context.readsMissingBody?.(fact)) {
      const advice = `facts.${fact} reads the body, which is not parsed yet: mount the body parser, such as express.json(), before rateLimit; in Fastify, use the hook "preHandler".`;
      this.report(name, `${problem} ${advice}`);
      return;
    }
    // Callers without the fact are expected and limited.
    if (rule.limits.some((other) => other.without?.includes(fact))) return;
    const source =
      fact === "user" || fact === "apiKey" ? `Set identity or facts.${fact}` : `Return it from facts.${fact}`;
    this.report(name, `${problem} ${source}, or limit callers without it: without: { "${per}": "5/m" }.`);
  }
}

/** The parts of an identity that a request does not have. */
export function unknownParts(values: RequestValues, identities: readonly string[]): readonly string[] {
  return missingParts(identities).filter((part) => values.key([part]) === undefined);
}
