/** Checks the options of a middleware that concern rules. */
import { optionError, SluiceError } from "../base/errors.ts";
import { checkOptions } from "../base/options.ts";
import type { Facts } from "../http/mounted-context.ts";
import type { MountedMiddleware } from "../http/request-charges.ts";

/** Options that rules define for each request. */
const NOT_WITH_RULES: Readonly<Record<string, string>> = {
  key: "identities are named in the rules",
  cost: "weight and the limits define the cost",
  hold: "hold is a member of a rule",
  refundIf: "refundIf is a member of a rule",
};

/** Checks the options of a middleware that concern rules, and returns its facts. */
export function factsOf<Args extends readonly unknown[]>({ options }: MountedMiddleware<Args>): Facts<Args> {
  const given = options as Readonly<Record<string, unknown>>;
  for (const [name, reason] of Object.entries(NOT_WITH_RULES)) {
    if (given[name] === undefined) continue;
    const message = `${name} can't be combined with rules: ${reason}.`;
    throw new SluiceError("invalid-option", message, { option: name, expected: "no such option beside rules" });
  }
  const { facts = {} } = given;
  checkOptions("facts", facts, Object.keys(facts ?? {}));
  for (const [name, fact] of Object.entries(facts as object)) {
    if (typeof fact !== "function") throw optionError("invalid-option", `facts.${name}`, "a function", fact);
  }
  return { ...(facts as Facts<Args>) };
}
