/** Finds the charges of a request for the option `rules`. */
import type { Decision } from "../../core/decision.ts";
import { optionError } from "../../core/errors.ts";
import type { MaybePromise } from "../../core/maybe-promise.ts";
import { checkOptions } from "../../core/options.ts";
import { REQUEST_RULES, type RequestContext, type RequestRules, type RuleOutcome } from "../../http/request-charges.ts";
import type { Keys } from "./keys.ts";
import type { RateLimitOptions } from "./options.ts";
import type { ChargesFor } from "./request-charges.ts";
import type { HandlerArgs, RequestReader } from "./request-reader.ts";

/** Connects the rules with a middleware. Throws if a fact has no function. */
export function ruleCharges<Args extends HandlerArgs>(
  options: RateLimitOptions<Args, unknown>,
  rules: RequestRules,
  keys: Keys<Args>,
  reader: RequestReader<Args>,
): ChargesFor<Args> {
  const facts: ContextSources<Args>["facts"] = { ...options.facts };
  const mounted = rules[REQUEST_RULES];
  mounted.mount({ facts: Object.keys(facts) });
  const sources: ContextSources<Args> = { reader, facts, parts: keys.parts };
  return (args) => mounted.chargesFor(new ArgsContext(sources, args));
}

/** Where the values of a request's context come from. */
interface ContextSources<Args extends HandlerArgs> {
  readonly reader: RequestReader<Args>;
  readonly facts: Readonly<Record<string, ((...args: Args) => unknown) | undefined>>;
  readonly parts: Keys<Args>["parts"];
}

/** The context of a request. A class, because one is created per request and an object of functions costs more. */
class ArgsContext<Args extends HandlerArgs> implements RequestContext {
  private readonly sources: ContextSources<Args>;
  private readonly args: Args;

  constructor(sources: ContextSources<Args>, args: Args) {
    this.sources = sources;
    this.args = args;
  }

  get method(): string {
    return this.sources.reader.method(this.args);
  }

  get path(): string {
    return this.sources.reader.path(this.args);
  }

  ip(): string | undefined {
    return this.sources.parts.ip(this.args);
  }

  network(): string | undefined {
    return this.sources.parts.network(this.args);
  }

  user(): MaybePromise<string | undefined> {
    return this.sources.parts.user(this.args);
  }

  apiKey(): MaybePromise<string | undefined> {
    return this.sources.parts.apiKey(this.args);
  }

  fact(name: string): unknown {
    return this.sources.facts[name]?.(...this.args);
  }
}

/** Throws for rules and facts that can't work. */
export function checkRules<Args extends HandlerArgs>({ rules, facts }: RateLimitOptions<Args, unknown>): void {
  if (typeof rules !== "object" || rules === null || !(REQUEST_RULES in rules)) {
    throw optionError("invalid-option", "rules", "a rule set made by defineRules() or loadRules()", rules);
  }
  if (facts === undefined) return;
  checkOptions("facts", facts, Object.keys(facts));
  for (const [name, fact] of Object.entries(facts)) {
    if (typeof fact !== "function") throw optionError("invalid-option", `facts.${name}`, "a function", fact);
  }
}

/** Adds the rule of a request to its decision, for the handler. */
export function describeRules(rules: RuleOutcome, decision: Decision): void {
  const described = decision as { rule?: string; limited?: true };
  described.rule = rules.ruleOf(decision);
  if (rules.counted.some(({ mode, decision }) => mode === "flag" && !decision.allowed)) described.limited = true;
}
