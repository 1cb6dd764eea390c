/** Parses `without`: limits of callers who lack an identity that a rule limits by. */
import { show } from "../base/errors.ts";
import { missingParts, parsePer } from "../http/identity/identities.ts";
import { at, type Place, quoted } from "./issues.ts";
import { type Members, objectAt } from "./members.ts";
import { type CompiledLimit, type ParseContext, parseLimits } from "./parse-limits.ts";

/** What such a limit is counted per: the user, else the API key, else the IP address. */
const COUNTED_PER = "client";

/** Where `without` is, and what it belongs to. */
interface Owner {
  readonly place: Place;
  /** The name of the rule. */
  readonly name: string;
  /** What the limits and budgets of the rule are counted per; `undefined` if that is not known. */
  readonly pers: readonly string[] | undefined;
}

/** Parses the limits of a rule and those of its preset, which the rule's own replace. */
export function parseWithout(
  context: ParseContext,
  own: unknown,
  preset: unknown,
  { place, name, pers }: Owner,
): readonly CompiledLimit[] {
  const { issues } = context;
  if (own === undefined && preset === undefined) return [];
  const members = own === undefined ? {} : objectAt(issues, place, own, 'an object such as { "tenant": "5/m" }');
  return Object.entries({ ...(preset as Members), ...members }).flatMap(([per, value]) => {
    const perPlace = at(place, per);
    const identities = parsePer(per);
    if (typeof identities === "string") {
      issues.add(perPlace, `${show(per)} ${identities}`);
    } else if (missingParts(identities).length === 0) {
      issues.add(perPlace, `never applies, because every caller has ${quoted([per])}`);
    } else if (pers && !pers.includes(per)) {
      const others = pers.length > 0 ? `its limits are per ${quoted([...new Set(pers)])}` : "it has none";
      issues.add(perPlace, `the rule has no limit per ${quoted([per])}; ${others}`);
    } else {
      const limits = parseLimits(context, { per: COUNTED_PER, value, place: perPlace }, `${name}.without.${per}`);
      return limits.map((limit) => Object.freeze({ ...limit, without: identities }));
    }
    return [];
  });
}

/** Whether a limit is one for callers who lack what another limit is counted per. */
export function isWithout(limit: Pick<CompiledLimit, "without">, per: string): boolean {
  return limit.without?.join("+") === per;
}
