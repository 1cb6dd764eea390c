/** Describes the difference between two versions of rules in words, for `replace`. */
import { algorithms } from "../algorithms/algorithms.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import type { RuleEngine } from "./rule-engine.ts";

/** The changes, one sentence each. Empty if the rules are equal. */
export function changesBetween(before: RuleEngine, after: RuleEngine): string[] {
  if (before.parsed.version === after.parsed.version) return [];
  return [...ruleChanges(before, after), ...policyChanges(before, after), ...otherChanges(before, after)];
}

function ruleChanges(before: RuleEngine, after: RuleEngine): string[] {
  const old = new Map(before.rules.map(({ rule }, i) => [rule.name, i]));
  const next = new Set(after.rules.map(({ rule }) => rule.name));
  const changes = [...old.keys()].filter((name) => !next.has(name)).map((name) => `Rule "${name}" was removed.`);
  // Relative order, so that a rule that was added does not move all that follow.
  const kept = after.rules.filter(({ rule }) => old.has(rule.name)).map(({ rule }) => rule.name);
  const keptBefore = [...old.keys()].filter((name) => next.has(name));
  for (const [i, { rule }] of after.rules.entries()) {
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
function policyChanges(before: RuleEngine, after: RuleEngine): string[] {
  const policiesOf = ({ table }: RuleEngine): Map<string, CompiledPolicy> =>
    new Map(table.all().map((policy) => [policy.qualifiedName, policy]));
  const old = policiesOf(before);
  const changes: string[] = [];
  for (const [name, policy] of policiesOf(after)) {
    const known = old.get(name);
    if (!known || known.fingerprint === policy.fingerprint) continue;
    changes.push(
      known.id === policy.id
        ? `${policy.name}: the limit changed from ${textOf(known)} to ${textOf(policy)}; its buckets are kept.`
        : `${policy.name}: changed from ${textOf(known)} to ${textOf(policy)}; it starts new buckets, because the algorithm, window or fill time changed.`,
    );
  }
  return [...new Set(changes)];
}

function otherChanges(before: RuleEngine, after: RuleEngine): string[] {
  const members = changedMembers(before.parsed.data, after.parsed.data).filter((name) => name !== "rules");
  return members.map((name) => `${name} changed.`);
}

function changedMembers(before: object | undefined, after: object | undefined): string[] {
  const [old, next] = [before ?? {}, after ?? {}] as Record<string, unknown>[] as [
    Record<string, unknown>,
    Record<string, unknown>,
  ];
  const names = new Set([...Object.keys(old), ...Object.keys(next)]);
  return [...names].filter((name) => JSON.stringify(old[name]) !== JSON.stringify(next[name]));
}

function textOf(policy: CompiledPolicy): string {
  return `"${algorithms[policy.algorithm].form.text(policy)}"`;
}
