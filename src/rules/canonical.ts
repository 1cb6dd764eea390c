/** The version of rules: equal data has equal versions, whatever the order of its members. */
import type { RulesData } from "./rules-data.ts";

/** 8 hex digits: FNV-1a over the UTF-16 units of the canonical JSON, without `$schema`. */
export function versionOf({ $schema: _, ...data }: Readonly<RulesData>): string {
  const text = canonicalJson(data);
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
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
