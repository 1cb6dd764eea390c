/** Describes the difference between two versions of rules in words, for `replace`. */

import type { Steps } from "../base/slices.ts";
import type { Policy } from "../core/policy.ts";
import { compilePolicy } from "../policy/compile-policy.ts";
import type { WrittenPolicy } from "./compiled-rules.ts";
import type { RuleEngine } from "./rule-engine.ts";

/** What is compared in one step. */
const ITEMS_PER_STEP = 500;
const RULES_PER_STEP = 16;

/** The changes, one sentence each. Empty if the rules are equal. */
export function* changesBetween(before: RuleEngine, after: RuleEngine): Steps<string[]> {
  if (before.parsed.version === after.parsed.version) return [];
  return [
    ...(yield* ruleChanges(before, after)),
    ...(yield* policyChanges(before, after)),
    ...(yield* overrideChanges(before, after)),
    ...otherChanges(before, after),
  ];
}

function* ruleChanges(before: RuleEngine, after: RuleEngine): Steps<string[]> {
  const old = new Map(before.rules.map(({ rule }, i) => [rule.name, i]));
  const next = new Set(after.rules.map(({ rule }) => rule.name));
  const changes = [...old.keys()].filter((name) => !next.has(name)).map((name) => `Rule "${name}" was removed.`);
  // Relative order, so that a rule that was added does not move all that follow.
  const kept = after.rules.filter(({ rule }) => old.has(rule.name)).map(({ rule }) => rule.name);
  const keptBefore = [...old.keys()].filter((name) => next.has(name));
  for (const [i, { rule }] of after.rules.entries()) {
    if (i % RULES_PER_STEP === 0) yield;
    const place = old.get(rule.name);
    if (place === undefined) {
      changes.push(`Rule "${rule.name}" was added.`);
      continue;
    }
    const members = changedMembers(before.parsed.data.rules[place], after.parsed.data.rules[i]);
    if (members.length > 0) changes.push(`Rule "${rule.name}": ${members.join(", ")} changed.`);
  }
  if (kept.some((name, i) => name !== keptBefore[i])) changes.push("The order of the rules changed.");
  return changes;
}

/** Limits that start new buckets, or keep theirs with another limit. */
function* policyChanges(before: RuleEngine, after: RuleEngine): Steps<string[]> {
  const old = new Map<string, WrittenPolicy>();
  for (const written of before.table.written()) {
    old.set(written.policy.qualifiedName, written);
    if (old.size % ITEMS_PER_STEP === 0) yield;
  }
  const changes: string[] = [];
  const oldOwners = new Set([...before.rules, before.fallback].map(({ rule }) => rule.name));
  for (const { name } of before.parsed.budgets) oldOwners.add(name);
  for (const [i, { policy, text }] of after.table.written().entries()) {
    if (i % ITEMS_PER_STEP === 0) yield;
    const known = old.get(policy.qualifiedName);
    if (!known) {
      // The limits of a new rule are new as well.
      const [owner = ""] = policy.name.split(/[.@]/);
      if (oldOwners.has(owner)) changes.push(`${policy.name}: "${text}" starts new buckets.`);
      continue;
    }
    if (known.policy.fingerprint === policy.fingerprint) continue;
    const change = `changed from "${known.text}" to "${text}"`;
    changes.push(
      known.policy.id === policy.id
        ? `${policy.name}: the limit ${change}; its buckets are kept.`
        : `${policy.name}: ${change}; it starts new buckets, because the algorithm, window or fill time changed.`,
    );
  }
  return [...new Set(changes)];
}

/** Overrides of which the first few changes are listed. */
const MAX_OVERRIDES = 20;

/** Overrides whose buckets are new, because their window or fill time has changed. */
function* overrideChanges(before: RuleEngine, after: RuleEngine): Steps<string[]> {
  const changes: string[] = [];
  let [more, compared] = [0, 0];
  for (const [key, limits] of after.parsed.overrides) {
    if (++compared % ITEMS_PER_STEP === 0) yield;
    for (const [limit, { text, policy }] of limits) {
      const known = before.parsed.overrides.get(key)?.get(limit);
      if (!known?.policy || !policy || known.text === text || hasSameBuckets(known.policy, policy)) continue;
      if (changes.length === MAX_OVERRIDES) more++;
      else changes.push(`${limit} of ${key}: changed from "${known.text}" to "${text}"; it starts new buckets.`);
    }
  }
  return more > 0 ? [...changes, `${more} more overrides start new buckets.`] : changes;
}

function hasSameBuckets(a: Policy, b: Policy): boolean {
  const idOf = (policy: Policy): string => compilePolicy({ ...policy, name: "override" } as Policy).id;
  return idOf(a) === idOf(b);
}

function otherChanges(before: RuleEngine, after: RuleEngine): string[] {
  const [old, next] = [before.parsed.memberVersions, after.parsed.memberVersions];
  const names = [...new Set([...old.keys(), ...next.keys()])].filter((name) => name !== "rules");
  return names.filter((name) => old.get(name) !== next.get(name)).map((name) => `${name} changed.`);
}

function changedMembers(before: object | undefined, after: object | undefined): string[] {
  const [old, next] = [before ?? {}, after ?? {}] as Record<string, unknown>[] as [
    Record<string, unknown>,
    Record<string, unknown>,
  ];
  const names = new Set([...Object.keys(old), ...Object.keys(next)]);
  return [...names].filter((name) => JSON.stringify(old[name]) !== JSON.stringify(next[name]));
}
