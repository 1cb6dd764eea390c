/** The matcher against a slow one that compares every pattern, segment by segment. */

import { expect, it } from "vitest";
import { leastCount, scaled } from "../../scripts/scale.js";
import { runSteps } from "../../src/base/slices.ts";
import { type Candidate, Matcher, type MatchRule } from "../../src/rules/matching/matcher.ts";
import { type Pattern, parsePattern } from "../../src/rules/matching/pattern.ts";
import { readingsOf } from "../../src/rules/matching/readings.ts";
import { type Random, randomFrom } from "../../src/testing/random.ts";
import { randomTarget } from "./random-targets.ts";

/** `node stress/run.js rules-matching` compares 1 000 000. */
const LOOKUPS = scaled(20_000);
const LOOKUPS_PER_SET = 100;
const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));

const WORDS = ["v1", "login", "files", "a", "b", "A", "userIds", "x", "0", "café", "a:b", "%3Ap", "a%20b", "..."];
const METHODS = ["GET", "POST", "HEAD", "GET|POST", "PURGE"];

function randomPath(random: Random, words: readonly string[]): string {
  const length = random.whole(0, 4);
  return Array.from({ length }, () => `/${random.pick(words)}`).join("") || "/";
}

function randomPattern(random: Random): Pattern {
  const path = randomPath(random, [...WORDS.slice(0, random.whole(2, WORDS.length)), ":x", ":y", ":x"]);
  const open = random.whole(0, 3) === 0 ? `${path === "/" ? "" : path}/*` : path;
  return parsePattern(random.whole(0, 2) === 0 ? `${random.pick(METHODS)} ${open}` : open) as Pattern;
}

function matchesPath(literals: Pattern["segments"], isOpen: boolean, path: string): boolean {
  const segments = path === "/" ? [] : path.slice(1).split("/");
  if (isOpen ? segments.length < literals.length : segments.length !== literals.length) return false;
  return literals.every((literal, index) =>
    literal === undefined ? segments[index] !== "" : literal === segments[index],
  );
}

/** Everything that `Matcher.find` returns, without trie, cache, truncation and shortcuts. */
function findSlowly(
  rules: readonly MatchRule[],
  caseSensitive: boolean,
  method: string,
  target: string,
): Candidate[][] {
  const sent = target.split("?", 1)[0] as string;
  const includes = ({ methods }: Pattern) =>
    methods === undefined || methods.includes(method) || (method === "HEAD" && methods.includes("GET"));
  const isExempt = ({ patterns }: MatchRule) =>
    sent.startsWith("/") &&
    patterns.some((pattern) => includes(pattern) && matchesPath(pattern.sentSegments, pattern.isOpen, sent));
  const candidatesOf = (reading: string, fold: (text: string) => string, needsExemption: boolean) =>
    rules.flatMap((rule, index) => {
      const pattern = rule.patterns.findIndex(
        (pattern) =>
          includes(pattern) &&
          matchesPath(
            pattern.segments.map((literal) => literal && fold(literal)),
            pattern.isOpen,
            fold(reading),
          ),
      );
      const isLeftOut = needsExemption && rule.isUnlimited && !isExempt(rule);
      return pattern === -1 || isLeftOut ? [] : [{ rule: index, pattern }];
    });
  const asWritten = (text: string) => text;
  const lowerCase = (text: string) => text.toLowerCase();
  const fold = caseSensitive ? asWritten : lowerCase;
  let readings = readingsOf(target, 1000);
  const [first] = candidatesOf(readings[0] as string, fold, false);
  const firstPattern = first && rules[first.rule]?.patterns[first.pattern];
  if (sent === "/" && firstPattern?.segments.length === 0 && !firstPattern.isOpen) readings = ["/"];
  const lists = [fold, asWritten].flatMap((fold) => readings.map((reading) => candidatesOf(reading, fold, true)));
  return [...new Map(lists.map((list) => [JSON.stringify(list), list])).values()];
}

it(`finds the same rules as a slow matcher, seed ${seed}`, () => {
  const random = randomFrom(seed);
  let odd = 0;
  for (let done = 0; done < LOOKUPS; done += LOOKUPS_PER_SET) {
    const rules = Array.from({ length: random.whole(1, 12) }, () => ({
      patterns: Array.from({ length: random.whole(1, 3) }, () => randomPattern(random)),
      isUnlimited: random.whole(0, 4) === 0,
    }));
    const caseSensitive = random.whole(0, 2) === 0;
    const matcher = runSteps(Matcher.build(rules, caseSensitive));
    for (let i = 0; i < LOOKUPS_PER_SET; i++) {
      const path = encodeURI(decodeURIComponent(randomPath(random, WORDS)));
      const target = random.whole(0, 1) === 0 ? path : randomTarget([path], random);
      const method = random.pick(["GET", "HEAD", "POST", "PURGE", "ALL"]);
      const found = matcher.find(method, target);
      if (found.length > 1) odd++;
      const expected = findSlowly(rules, caseSensitive, method, target);
      if (JSON.stringify(found) === JSON.stringify(expected)) continue;
      const patterns = rules.map(({ patterns, isUnlimited }) => [...patterns.map(({ text }) => text), isUnlimited]);
      expect(found, `SLUICE_SEED=${seed} ${method} ${target} ${JSON.stringify({ patterns, caseSensitive })}`).toEqual(
        expected,
      );
    }
  }
  expect(odd).toBeGreaterThan(leastCount(LOOKUPS / 20));
});
