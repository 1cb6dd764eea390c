/** Parses the condition of a rule: facts that must have certain values. */
import { show } from "../base/errors.ts";
import { canBeFact, isFact } from "../http/identity/identities.ts";
import { at, type Place } from "./issues.ts";
import { objectAt, textsAt } from "./members.ts";
import { type ParseContext, unknownPlan } from "./parse-limits.ts";
import type { ParsedRule } from "./parsed-rules.ts";

/** Parses `when`. */
export function parseWhen(context: ParseContext, place: Place, value: unknown): ParsedRule["when"] {
  const { issues, facts, plans = [] } = context;
  if (value === undefined) return [];
  const members = objectAt(issues, place, value, 'an object of facts, such as { "bot": "likely" }') ?? {};
  return Object.freeze(
    Object.entries(members).map(([fact, given]) => {
      const factPlace = at(place, fact);
      if (!canBeFact(fact)) issues.add(factPlace, `${show(fact)} is not the name of a fact`);
      else if (isFact(fact)) facts.add(fact);
      const texts = textsAt(issues, factPlace, given, "text, or a list of texts");
      for (const { place, text } of texts) {
        // The plan of a caller is always one of the plans.
        if (fact === "plan" && plans.length > 0 && !plans.includes(text)) {
          issues.add(place, unknownPlan(text, plans));
        }
      }
      return Object.freeze({ fact, values: Object.freeze(texts.map(({ text }) => text)) });
    }),
  );
}
