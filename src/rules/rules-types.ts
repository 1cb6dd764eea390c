/** Types that check rules in TypeScript: the names of plans, budgets and presets, and the facts that rules need. */
import type { OptionalFact } from "../http/identity/identities.ts";
import type { LimitText, RuleData, RulesData } from "./rules-data.ts";

/** Identities that need no fact. A user and an API key may be facts, or be verified by `identity`; `bot` may be a signal. */
type BuiltIn = "ip" | "network" | "client" | "global" | "clearance" | OptionalFact;

/** The facts of presets. */
interface PresetFacts {
  login: "account";
  "password-reset": "account";
  "ai-tokens": "tokens";
}

/** The member of a type, or of each type of a union; `never` where it is missing. */
type Member<T, K extends PropertyKey> = T extends unknown
  ? K extends keyof T
    ? Exclude<T[K], undefined>
    : never
  : never;
type KeysOf<T> = T extends object ? keyof T & string : never;
type ItemOf<T> = T extends readonly (infer Item extends string)[] ? Item : never;

/** The parts of `ip+account`. */
type Parts<Per> = Per extends `${infer First}+${infer Rest}` ? First | Parts<Rest> : Per;

/** The facts of limits as written: their identities, what they count, and `plan` if they are written by plan. */
type LimitsFacts<L> = L extends object ? Parts<keyof L & string> | ValueFacts<L[keyof L]> : never;
type ValueFacts<V> = V extends string
  ? CountedFact<V>
  : V extends readonly (infer Item)[]
    ? ItemFacts<Item>
    : ItemFacts<V>;
type ItemFacts<V> = V extends string ? CountedFact<V> : V extends object ? "plan" | CountedFact<V[keyof V]> : never;
type CountedFact<Text> = Text extends `${string} of ${infer Fact}` ? Fact : never;

/** The facts of a rule or of the fallback. */
type RuleFacts<R> =
  | LimitsFacts<Member<R, "limits">>
  | LimitsFacts<Member<R, "withClearance">>
  | KeysOf<Member<R, "when">>
  | Member<PresetFacts, Member<R, "preset"> & string>;

type BudgetsFacts<B> = B extends object ? LimitsFacts<B[keyof B]> : never;

/** The names of the facts that rules need. Those of rules that are not known when the code is compiled are strings. */
export type FactsOf<D extends RulesData> = Exclude<
  RuleFacts<D["rules"][number]> | RuleFacts<D["fallback"]> | BudgetsFacts<Member<D, "budgets">>,
  BuiltIn
>;

/** Members that do not exist are `never`, so that a misspelt one does not compile. */
type Only<T, Known extends PropertyKey> = { readonly [member in Exclude<keyof T, Known>]: never };

/** A limit that names every plan, and no other. */
type CheckedLimit<V, P extends string> = V extends string
  ? unknown
  : V extends readonly unknown[]
    ? { readonly [index in keyof V]: CheckedLimit<V[index], P> }
    : { readonly [plan in P]: LimitText } & Only<V, P>;
type CheckedLimits<L, P extends string> = { readonly [per in keyof L]: CheckedLimit<L[per], P> };

/** A name that does not exist. Not `never`, which would make the whole object `never`, with an error in every member. */
interface UnknownName<Known extends string> {
  readonly "is none of": Known;
}
type CheckedName<Name, Known extends string> = Name extends Known ? unknown : UnknownName<Known>;
type CheckedNameList<L, Known extends string> = { readonly [index in keyof L]: CheckedName<L[index], Known> };

/** A rule that names existing plans and budgets, and has no other members than these. */
type CheckedRule<R, P extends string, B extends string, Known extends PropertyKey> = R extends object
  ? {
      readonly [member in keyof R]: member extends "limits" | "without" | "withClearance"
        ? CheckedLimits<R[member], P>
        : member extends "budgets"
          ? CheckedNameList<R[member], B>
          : member extends Known
            ? unknown
            : never;
    }
  : unknown;
type CheckedRuleList<L, P extends string, B extends string> = {
  readonly [index in keyof L]: CheckedRule<L[index], P, B, keyof RuleData>;
};

/** The names in rules, checked: `defineRules<const D extends RulesData>(data: D & CheckedRules<D>)`. */
export type CheckedRules<D extends RulesData> = CheckedNames<
  D,
  ItemOf<Member<D, "plans">>,
  KeysOf<Member<D, "budgets">>
>;
type CheckedNames<D extends RulesData, P extends string, B extends string> = {
  readonly [member in keyof D]: member extends "defaultPlan"
    ? CheckedName<D[member], P>
    : member extends "budgets"
      ? { readonly [budget in keyof D[member]]: CheckedLimits<D[member][budget], P> }
      : member extends "defaults"
        ? CheckedRule<D[member], P, B, keyof NonNullable<RulesData["defaults"]>>
        : member extends "rules"
          ? CheckedRuleList<D[member], P, B>
          : member extends "fallback"
            ? CheckedRule<D[member], P, B, Exclude<keyof RuleData, "name" | "match" | "when">>
            : member extends keyof RulesData
              ? unknown
              : never;
};
