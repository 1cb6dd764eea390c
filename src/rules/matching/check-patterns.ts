/** Finds patterns that never apply, and patterns that make lookups slow. */
import type { Steps } from "../../base/slices.ts";
import { includesMethod, type Pattern } from "./pattern.ts";

/** A pattern that is rejected: either `hiddenBy` or `overlaps` is set. */
export interface PatternProblem {
  readonly rule: number;
  readonly pattern: number;
  /** The rule that matches all of its requests first. It can be its own rule. */
  readonly hiddenBy?: number;
  /** How many other patterns may match one of its requests, if that is more than `MAX_OVERLAPS`. */
  readonly overlaps?: number;
}

/** How many other patterns may match the same request. */
const MAX_OVERLAPS = 32;
/** The check ends after this many problems, so that its time is bounded for any input. */
const MAX_PROBLEMS = 100;

/** Patterns that are checked in one step. */
const PATTERNS_PER_STEP = 50;

/** A pattern that is not hidden. */
interface Entry {
  readonly rule: number;
  readonly methods: readonly string[] | undefined;
  readonly hasCondition: boolean;
}

/** Patterns with the same path. */
interface Entries {
  /** Those without methods. */
  readonly all: Entry[];
  readonly byMethod: Map<string, Entry[]>;
  /** The largest number of patterns that match one method. */
  maxMatches: number;
}

/** The patterns that share their first segments. */
interface Node {
  readonly literals: Map<string, Node>;
  name: Node | undefined;
  /** Patterns that end here, and patterns that continue with `*`. */
  readonly closed: Entries;
  readonly open: Entries;
  /** The largest `maxMatches` of `literals`. */
  maxLiteralMatches: number;
  /** At least the number of patterns from here on that match one request. */
  maxMatches: number;
}

/** Checks the patterns of all rules, in written order. */
export function* checkPatterns(
  rules: readonly { readonly patterns: readonly Pattern[]; readonly hasCondition: boolean }[],
  caseSensitive: boolean,
): Steps<PatternProblem[]> {
  const problems: PatternProblem[] = [];
  const root = newNode();
  let checked = 0;
  for (const [rule, { patterns, hasCondition }] of rules.entries()) {
    for (const [pattern, { segments: written, methods, isOpen }] of patterns.entries()) {
      if (++checked % PATTERNS_PER_STEP === 0) yield;
      if (problems.length === MAX_PROBLEMS) return problems;
      const segments = caseSensitive ? written : written.map((literal) => literal?.toLowerCase());
      const entry = { rule, methods, hasCondition };
      const hiddenBy = findHiding(root, segments, isOpen, entry);
      if (hiddenBy !== undefined) {
        problems.push({ rule, pattern, hiddenBy });
        continue;
      }
      const before = root.maxMatches;
      const matches = insert(root, segments, isOpen, entry);
      if (matches > before && matches > MAX_OVERLAPS + 1) problems.push({ rule, pattern, overlaps: matches - 1 });
    }
  }
  return problems;
}

function newNode(): Node {
  const [closed, open] = [newEntries(), newEntries()];
  return { literals: new Map(), name: undefined, closed, open, maxLiteralMatches: 0, maxMatches: 0 };
}

function newEntries(): Entries {
  return { all: [], byMethod: new Map(), maxMatches: 0 };
}

/** The rule of an earlier pattern that matches every request of this one. */
function findHiding(
  node: Node,
  segments: readonly (string | undefined)[],
  isOpen: boolean,
  entry: Entry,
  depth = 0,
): number | undefined {
  const isEnd = depth === segments.length;
  const hiding = hidingIn(node.open, entry) ?? (isEnd && !isOpen ? hidingIn(node.closed, entry) : undefined);
  if (hiding || isEnd) return hiding?.rule;
  const literal = segments[depth];
  for (const next of [literal === undefined ? undefined : node.literals.get(literal), node.name]) {
    const rule = next && findHiding(next, segments, isOpen, entry, depth + 1);
    if (rule !== undefined) return rule;
  }
  return undefined;
}

function hidingIn({ all, byMethod }: Entries, { rule, methods }: Entry): Entry | undefined {
  const applies = (earlier: Entry) => !earlier.hasCondition || earlier.rule === rule;
  const [first] = methods ?? [];
  if (!methods || first === undefined) return all.find(applies);
  const includesAll = (earlier: Entry) => methods.every((method) => includesMethod(earlier.methods, method));
  return all.find(applies) ?? byMethod.get(first)?.find((earlier) => applies(earlier) && includesAll(earlier));
}

/**
 * Adds a pattern and returns how many patterns may match one request. A request follows at most one literal and the
 * `:name` of each node, so this is an upper bound, also of the nodes that a lookup visits at each depth.
 */
function insert(
  node: Node,
  segments: readonly (string | undefined)[],
  isOpen: boolean,
  entry: Entry,
  depth = 0,
): number {
  if (depth === segments.length) {
    add(isOpen ? node.open : node.closed, entry);
  } else {
    const literal = segments[depth];
    if (literal === undefined) {
      insert((node.name ??= newNode()), segments, isOpen, entry, depth + 1);
    } else {
      const child = node.literals.get(literal) ?? newNode();
      node.literals.set(literal, child);
      node.maxLiteralMatches = Math.max(node.maxLiteralMatches, insert(child, segments, isOpen, entry, depth + 1));
    }
  }
  const further = node.maxLiteralMatches + (node.name?.maxMatches ?? 0);
  node.maxMatches = node.open.maxMatches + Math.max(node.closed.maxMatches, further);
  return node.maxMatches;
}

function add(entries: Entries, entry: Entry): void {
  const { all, byMethod } = entries;
  if (!entry.methods) {
    all.push(entry);
    entries.maxMatches++;
    return;
  }
  for (const method of entry.methods.includes("GET") ? new Set([...entry.methods, "HEAD"]) : entry.methods) {
    const list = byMethod.get(method) ?? [];
    byMethod.set(method, list);
    list.push(entry);
    entries.maxMatches = Math.max(entries.maxMatches, all.length + list.length);
  }
}
