/** Rule files for tests: a small valid one to change, and the lines that a check reports about a file. */
import { parseRules } from "../../src/rules/parse-rules.ts";
import type { ParsedRules } from "../../src/rules/parsed-rules.ts";

/** Data of any shape. */
// biome-ignore lint/suspicious/noExplicitAny: tests change the data in ways that its type forbids.
export type AnyFile = any;

/** A valid file with ten rules, three plans and three budgets. */
export function validFile(): AnyFile {
  return {
    plans: ["free", "pro", "enterprise"],
    defaultPlan: "free",
    budgets: {
      address: { ip: "50/s burst 300" },
      api: { tenant: { free: "60/m burst 30", pro: "600/m burst 200", enterprise: "6000/m burst 2000" } },
      monthly: { tenant: { free: "10000/30d fixed", pro: "1000000/30d fixed", enterprise: "unlimited" } },
    },
    rules: Array.from({ length: 10 }, (_, i) => ({ name: `r${i}`, match: `/r${i}`, limits: { client: "10/s" } })),
    fallback: { limits: { ip: "2/s burst 20" } },
  };
}

/** The issues of the valid file after a change, as lines of "path: message". */
export function linesAfter(change: (file: AnyFile) => void): string[] {
  const file = validFile();
  change(file);
  return linesOf(file);
}

/** The issues of a file, as lines of "path: message". */
export function linesOf(file: unknown): string[] {
  return (parseRules(file).issues ?? []).map(({ path, message }) => `${path}: ${message}`);
}

/** The parsed rules of a file that must be valid. */
export function parsed(file: unknown): ParsedRules {
  const { rules, issues } = parseRules(file);
  if (!rules) throw new Error(`The file is invalid: ${JSON.stringify(issues)}`);
  return rules;
}

/** The parsed rules of the valid file after a change. */
export function parsedAfter(change: (file: AnyFile) => void): ParsedRules {
  const file = validFile();
  change(file);
  return parsed(file);
}
