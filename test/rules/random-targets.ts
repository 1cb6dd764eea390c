/** Random request targets: the paths of some routes in unusual spellings. */
import type { Random } from "../../src/testing/random.ts";

const HOSTILE = [
  "..",
  ".",
  "%2e%2e",
  ".%2E",
  "%2e",
  "%252e",
  "%00",
  "%zz",
  "%",
  "%c0%af",
  "%2f",
  "%5c",
  "%3a",
  "%C3%A9",
];
const ODD = [
  "\\",
  ";x",
  ":p",
  "*",
  "{x}",
  "'",
  "\xa0",
  "\xe9",
  "%C4%B0",
  "%E2%84%AA",
  "%20",
  "+",
  "@",
  "",
  "x",
  "#",
  "?",
];
const ORIGINS = [
  "http://h",
  "HTTP://h:80",
  "https://u@h",
  "http://",
  "http:///h",
  "ftp://h",
  "http://h\\x",
  "//h",
  "///h",
  "/\\h",
];

const encode = (char: string) => `%${char.charCodeAt(0).toString(16).padStart(2, "0")}`;
const flipCase = (text: string) => (text === text.toLowerCase() ? text.toUpperCase() : text.toLowerCase());

/** Changes one place of a target. */
const CHANGES: readonly ((target: string, at: number, random: Random) => string)[] = [
  (target, at) => target.slice(0, at) + flipCase(target.charAt(at)) + target.slice(at + 1),
  (target, at) => target.slice(0, at) + encode(target.charAt(at)) + target.slice(at + 1),
  (target, at) => target.slice(0, at) + encode(target.charAt(at)).toUpperCase() + target.slice(at + 1),
  (target, at) => `${target.slice(0, at)}%25${encode(target.charAt(at)).slice(1)}${target.slice(at + 1)}`,
  (target, at) => target.slice(0, at) + target.slice(at + 1),
  (target, at, random) => target.slice(0, at) + random.pick([...HOSTILE, ...ODD]) + target.slice(at),
  (target, _at, random) => insertSegment(target, random, random.pick(HOSTILE)),
  (target, _at, random) =>
    insertSegment(target, random, random.pick(["", "", "x/..", "X/%2E%2e", ".", random.pick(ODD)])),
  (target, _at, random) => replaceSlash(target, random, random.pick(["\\", "%2f", "%2F", "%5C", "//"])),
  (target, _at, random) => target + random.pick(["/", "//", "/.", "/..", "?a=/b", "#a", "/#", "%2f", "\xa0", ...ODD]),
  (target, _at, random) => random.pick(ORIGINS) + target,
  (target, _at, random) =>
    random.pick(["/static/..", "/static/%2e%2e", "/static\\..", "/healthz/..", "/v1/files"]) + target,
];

/** A random target made of a path, with up to `maxChanges` unusual places. */
export function randomTarget(paths: readonly string[], random: Random, maxChanges = 5): string {
  let target = random.pick(paths);
  for (let left = random.whole(0, maxChanges); left > 0; left--) {
    target = random.pick(CHANGES)(target, random.whole(0, Math.max(0, target.length - 1)), random);
  }
  return target;
}

function insertSegment(target: string, random: Random, segment: string): string {
  const parts = target.split("/");
  parts.splice(random.whole(1, parts.length), 0, segment);
  return parts.join("/");
}

function replaceSlash(target: string, random: Random, by: string): string {
  const slashes = [...target.matchAll(/\//g)].map(({ index }) => index);
  const at = slashes.length > 0 ? random.pick(slashes) : 0;
  return target.slice(0, at) + by + target.slice(at + 1);
}
