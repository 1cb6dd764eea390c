/** Rules as their authors write them: plain data, in TypeScript or JSON. */

import type { Duration, TimeUnit } from "../base/rate.ts";
import type { OnStoreError } from "../core/apply.ts";
import type { Per } from "../http/identity/identities.ts";
import type { RefundIf } from "../http/request-ending.ts";
import type { PolicyText } from "../policy/text-type.ts";

/** A policy as text. It counts requests, or the numeric fact after `of`: `"20000/d fixed of tokens"`. */
export type LimitText = PolicyText | ConcurrencyText | `${PolicyText} of ${string}` | "unlimited";

/** A concurrency limit as text. In code, it is written `concurrency(5, { leaseMs: "30s" })`. */
type ConcurrencyText = `${number} concurrent` | `${number} concurrent lease ${number}${TimeUnit}`;

/** One limit for all plans, or one for each plan; no plan may be missing. */
export type ByPlan<P extends string> = LimitText | { readonly [plan in P]: LimitText };

/** Limits by identity. A list sets several limits for one identity, such as a burst and a daily limit. */
export type Limits<P extends string> = { readonly [per in Per]?: ByPlan<P> | readonly ByPlan<P>[] };

/** What happens when a limit is exceeded. `"flag"` lets the request proceed and sets `getRateLimit(request).limited`. */
export type Action = "deny" | "challenge" | "flag";

/** The names of the presets. */
export type PresetName =
  | "anonymous"
  | "payments"
  | "login"
  | "mfa"
  | "password-reset"
  | "signup"
  | "webhooks"
  | "public-api"
  | "search"
  | "ai-tokens";

/** A set of rules as data. */
export interface RulesData<P extends string = string> {
  /** JSON Schema for editors: `"./node_modules/sluice/rules.schema.json"`. */
  $schema?: string;
  /** Version of this format. Default: 1. */
  version?: 1;
  /** Plan names. Requires `defaultPlan`. */
  plans?: readonly P[];
  /** Plan of callers whose plan is missing or not listed. Requires `plans`. */
  defaultPlan?: P;
  /** Limits shared by several rules. Each budget has exactly one `Per`. */
  budgets?: { readonly [name: string]: Limits<P> };
  /** Settings for rules that do not set their own. */
  defaults?: Pick<RuleData<P>, "budgets" | "mode" | "onStoreError" | "refundIf">;
  /** At most 512 rules, in order; the first match applies. */
  rules: readonly RuleData<P>[];
  /** Applies to requests that match no rule. */
  fallback: Omit<RuleData<P>, "name" | "match" | "when"> | "unlimited";
  /** Limits for single keys: `{ "tenant:acme": { api: "5000/m burst 1000" } }`. */
  overrides?: { readonly [key: string]: { readonly [limit: string]: LimitText } };
  /** Whether case matters when paths are matched. Default: false. */
  caseSensitive?: boolean;
}

/** One rule as data. */
export interface RuleData<P extends string = string> {
  /** Unique name, `[A-Za-z0-9_-]{1,40}`; part of the name of every policy of the rule. */
  name: string;
  /** One or more patterns: `"POST /v1/login"`, `"GET|HEAD /v1/users/:id"`, `"/v1/*"`. */
  match: string | readonly string[];
  /** Facts, as text, that must equal the value or one of the values: `{ bot: "likely" }`. */
  when?: { readonly [fact: string]: string | readonly string[] };
  /** Preset to start from: its `limits` and `without` are merged by `Per`; any other member set here replaces the preset's. */
  preset?: PresetName;
  /** Limits of this rule alone. They count requests, or the fact named by `of`. */
  limits?: Limits<P>;
  /**
   * Limits of callers who lack an identity that the rule limits by, such as a tenant: `{ tenant: "5/m" }`. They are counted
   * per `client` and deny. Default: the limit per tenant does not apply to callers without one.
   */
  without?: Limits<P>;
  /** Budgets to charge; `[]` charges none, not even those of `defaults`. */
  budgets?: readonly string[];
  /** Exempts matching requests: not counted, no RateLimit headers. Used instead of `limits`; matches exactly. */
  unlimited?: true;
  /** Gives each pattern of `match` its own buckets. Default: false, one bucket per key for the whole rule. */
  perPattern?: boolean;
  /** Weight of a request in shared budgets. Own limits are not affected. Default: 1. */
  weight?: number;
  /** Holds amounts counted by `of` until they are settled, for this long unless renewed. Default: charged at once. */
  hold?: Duration;
  /**
   * Refunds every charge of a request that ends this way; `"reported"`: the handler has called `succeeded` of
   * `getRateLimit(request)`. Default: no refunds.
   */
  refundIf?: RefundIf;
  /** `"shadow"` counts the rule's own limits without enforcing them. Default: `"enforce"`. */
  mode?: "enforce" | "shadow";
  /** What to do while the store is unavailable. Default: `"local"`. */
  onStoreError?: OnStoreError;
  /** What happens when a limit is exceeded, for all limits or by `Per`. Default: `"deny"`. */
  action?: Action | { readonly [per: string]: Action };
  /**
   * Limits that replace the `"challenge"` limits for callers with a clearance. They are counted per clearance and per IP
   * address as well. Default: the same limits, counted per clearance and per IP address.
   */
  withClearance?: Limits<P>;
  /** Counts a denial as a strike of the penalties in `abuse`. Default: false. */
  penalty?: boolean;
}

/** One problem in a rule file. */
export interface Issue {
  /** Where it is: `rules[3].limits.tenant`. */
  readonly path: string;
  /** The same as a JSON pointer: `/rules/3/limits/tenant`. */
  readonly pointer: string;
  /** One sentence, without the path. */
  readonly message: string;
  /** The rejected value. */
  readonly received: unknown;
}

/** The facts of one request, by name. */
export type FactValues<F extends string> = { readonly [fact in F]?: string | number | undefined };
