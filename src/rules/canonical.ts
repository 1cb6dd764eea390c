/** The version of rules: equal data has equal versions, whatever the order of its members. */
import { hexHash } from "./hex-hash.ts";
import type { RulesData } from "./rules-data.ts";

/** 8 hex digits: the hash of the canonical JSON, without `$schema`. */
export function versionOf({ $schema: _, ...data }: Readonly<RulesData>): string {
  return hexHash(canonicalJson(data));
}

/** JSON with the members of every object in order. */
function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join()}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalJson((value as Record<string, unknown>)[key])}`);
  return `{${members.join()}}`;
}
