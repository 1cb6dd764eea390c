/** What to write in place of a text that is almost a pattern. */
import { show } from "../../base/errors.ts";
import { parsePattern } from "./pattern.ts";

/** Longer texts get no suggestion: an error quotes a part of them only. */
const MAX_CHARS = 200;

/** Mistakes, each with what is wrong and how it is corrected. */
const MISTAKES: readonly (readonly [problem: string, correct: (text: string) => string])[] = [
  ["methods are in upper case", (text) => text.replace(/^[^ /]+(?= )/, (methods) => methods.toUpperCase())],
  ["without methods, it matches all of them", (text) => text.replace(/^(?:\*|ALL|ANY) +/i, "")],
  [
    'methods are joined by "|"',
    (text) => text.replace(/^[A-Z]+(?:[, ]+[A-Z]+)+(?= )/, (m) => m.split(/[, ]+/).join("|")),
  ],
  ["a path has no trailing slash", (text) => text.replace(/\/+$/, "")],
  ["a path has no empty segments", (text) => text.replace(/\/{2,}/g, "/")],
  ["one space separates the methods from the path", (text) => text.trim().replace(/^([A-Z|]+) *(?=\/)/, "$1 ")],
  ['a path starts with "/"', (text) => text.replace(/^([A-Z|]+ )?(?=[^/ ]+(?:\/|$))/, "$1/")],
  ["a pattern has no host", (text) => text.replace(/https?:\/\/[^/]+/, "")],
  ["the query is ignored", (text) => text.replace(/(\/[^:/?][^/?]*)\?[^/]*$/, "$1")],
  ['"*" is the last segment, and ":name" is any one segment', (text) => text.replace(/\/\*(?=\/)/g, "/:name")],
];

/** A sentence part that says what to write. */
export function patternAdvice(text: string): string {
  if (text.length <= MAX_CHARS) {
    for (const [problem, correct] of MISTAKES) {
      const corrected = correct(text);
      if (corrected !== text && parsePattern(corrected)) return `${problem}: write ${show(corrected)}`;
    }
  }
  return 'write "[METHODS] /path" with literal segments, :names and an optional trailing *';
}
