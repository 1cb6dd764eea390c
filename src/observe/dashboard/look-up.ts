/** Looks up one key in the stores of all known policies. The key is neither kept nor returned. */
import type { CompiledPolicy } from "../../core/compiled-policy.ts";
import type { Store } from "../../core/store.ts";
import { networkOf, parseAddress, widerNetworkOf } from "../../http/identity/address.ts";
import { isFact, kindsOf } from "../../http/identity/identities.ts";
import type { RuleSet } from "../../rules/rule-set-types.ts";
import type { ObserverState } from "../observer.ts";

const DEADLINE_MS = 1000;
/** Keys and policies that are looked up at once, and at most. */
const BATCH = 64;
const MAX_INSPECTIONS = 2000;
const MAX_FACTS = 8;
/** As `identity` does by default. */
const IPV6_PREFIX = 56;

/** The result for one policy. */
interface PolicyEntry {
  readonly policy: string;
  /** How the text was understood: `typed`, or the kind of a key, such as `ip`. */
  readonly as: string;
  /** Whether anything is stored. If not, nothing of the limit is in use. */
  readonly found: boolean;
  readonly limit: number;
  readonly remaining: number;
  readonly ttlMs: number | null;
  /** Of a penalty: how long the key is blocked, and its strikes. */
  readonly blockedMs?: number;
  readonly strikes?: number;
  /** Amounts that are held. */
  readonly held?: number;
}

/** The results of one key. */
export interface LookUp {
  readonly entries: readonly PolicyEntry[];
  /** The tags that log lines and the dashboard show for this key. */
  readonly tags: readonly { readonly as: string; readonly tag: string }[];
  /** Policies whose store did not reply. */
  readonly failed: readonly string[];
  /** Whether every policy was read within the deadline. */
  readonly complete: boolean;
}

/** Looks up a key as typed, and as the keys that middleware makes of addresses, users and API keys. */
export async function lookUp(state: ObserverState, text: string, rules: RuleSet | undefined): Promise<LookUp> {
  const forms = [...formsOf(text, rules)];
  const entries: PolicyEntry[] = [];
  const failed = new Set<string>();
  const known = [...state.known].map(([, entry]) => entry);
  const jobs = known.flatMap(({ policy, store }) => forms.map(([as, key]) => ({ policy, store, as, key })));
  let isLate = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(() => {
      isLate = true;
      resolve();
    }, DEADLINE_MS);
  });
  let done = 0;
  for (let i = 0; i < Math.min(jobs.length, MAX_INSPECTIONS) && !isLate; i += BATCH) {
    const batch = jobs.slice(i, i + BATCH).map(async (job) => {
      try {
        const entry = await inspect(job);
        // A late reply must not change a result that has been returned.
        if (!isLate) entries.push(entry);
      } catch {
        if (!isLate) failed.add(job.policy.name);
      }
      done++;
    });
    await Promise.race([Promise.all(batch), late]);
  }
  clearTimeout(timer);
  const complete = done === jobs.length;
  isLate = true;
  const tags = forms.map(([as, key]) => ({ as, tag: state.tagOf(key) }));
  return { entries: summary(entries), tags, failed: [...failed], complete };
}

/** The keys that a text may stand for, by kind. */
function formsOf(text: string, rules: RuleSet | undefined): ReadonlyMap<string, string> {
  const forms = new Map([["typed", text]]);
  const address = parseAddress(text.replace(/^(?:ip|net):/, ""));
  if (address) {
    forms.set("ip", `ip:${networkOf(address, IPV6_PREFIX)}`);
    forms.set("network", `net:${widerNetworkOf(address)}`);
  }
  forms.set("user", `user:${text}`);
  forms.set("API key", `key:${text}`);
  for (const fact of factsOf(rules)) forms.set(fact, `${kindsOf(fact)[0]}:${text}`);
  // What was typed with its kind is one key, not two.
  for (const [as, key] of forms) if (as !== "typed" && key === text) forms.delete(as);
  return forms;
}

/** The facts that limits are counted per. Joined ones have to be typed as they are. */
function factsOf(rules: RuleSet | undefined): readonly string[] {
  if (!rules) return [];
  const { budgets = {}, rules: list, fallback } = rules.data;
  const limits = [...Object.values(budgets), ...[...list, fallback].map((rule) => limitsOf(rule))];
  const names = new Set(limits.flatMap((one) => Object.keys(one ?? {})));
  return [...names].filter((name) => !name.includes("+") && isFact(name)).slice(0, MAX_FACTS);
}

function limitsOf(rule: RuleSet["data"]["fallback"]): object | undefined {
  return rule === "unlimited" ? undefined : rule.limits;
}

interface Job {
  readonly policy: CompiledPolicy;
  readonly store: Store;
  readonly as: string;
  readonly key: string;
}

async function inspect({ policy, store, as, key }: Job): Promise<PolicyEntry> {
  const { found, limit, remaining, ttlMs, blockedMs, strikes, holds } = await store.inspect(policy, key);
  const held = holds?.reduce((sum, { amount }) => sum + amount, 0);
  return {
    policy: policy.name,
    as,
    found,
    limit,
    remaining,
    ttlMs,
    ...(blockedMs !== undefined && { blockedMs }),
    ...(strikes !== undefined && { strikes }),
    ...(held !== undefined && { held }),
  };
}

/** What is stored, and one entry for each policy that has nothing stored. */
function summary(entries: readonly PolicyEntry[]): PolicyEntry[] {
  const found = entries.filter((entry) => entry.found);
  const used = new Set(found.map(({ policy }) => policy));
  const unused = entries.filter(({ policy, as }) => as === "typed" && !used.has(policy));
  // A policy may be used on several stores.
  return [...found, ...new Map(unused.map((entry) => [entry.policy, entry])).values()];
}
