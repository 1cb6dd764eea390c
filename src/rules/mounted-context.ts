/** Requests of a middleware, as rules read them. */
import { optionError, SluiceError } from "../core/errors.ts";
import type { MaybePromise } from "../core/maybe-promise.ts";
import { checkOptions } from "../core/options.ts";
import type { MountedMiddleware, RequestContext } from "../http/request-charges.ts";

/** Options that rules define for each request. */
const NOT_WITH_RULES: Readonly<Record<string, string>> = {
  key: "identities are named in the rules",
  cost: "weight and the limits define the cost",
  hold: "hold is a member of a rule",
  refundIf: "refundIf is a member of a rule",
};

/** The functions of facts by name. */
export type Facts<Args extends readonly unknown[]> = Readonly<Record<string, ((...args: Args) => unknown) | undefined>>;

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

/** The context of a request. A class, because one is created per request and an object of functions costs more. */
export class MountedContext<Args extends readonly unknown[]> implements RequestContext {
  private readonly middleware: MountedMiddleware<Args>;
  private readonly facts: Facts<Args>;
  private readonly args: Args;

  constructor(middleware: MountedMiddleware<Args>, facts: Facts<Args>, args: Args) {
    this.middleware = middleware;
    this.facts = facts;
    this.args = args;
  }

  get method(): string {
    return this.middleware.reader.method(this.args);
  }

  get path(): string {
    return this.middleware.reader.path(this.args);
  }

  ip(): string | undefined {
    return this.middleware.parts.ip(this.args);
  }

  user(): MaybePromise<string | undefined> {
    return this.middleware.parts.user(this.args);
  }

  apiKey(): MaybePromise<string | undefined> {
    return this.middleware.parts.apiKey(this.args);
  }

  fact(name: string): unknown {
    return this.facts[name]?.(...this.args);
  }
}
