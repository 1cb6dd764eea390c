/** Finds the rules of a request, for every way in which a router may read its path. */
import { TrieRouter } from "hono/router/trie-router";
import { BoundedMap } from "../../base/bounded-map.ts";
import type { Steps } from "../../base/slices.ts";
import { includesMethod, type Pattern } from "./pattern.ts";
import { isCanonical, readingsOf } from "./readings.ts";

/** A rule that matches a request, and the first of its patterns that does; both are indexes. */
export interface Candidate {
  readonly rule: number;
  readonly pattern: number;
}

/** What the matcher needs of a rule. */
export interface MatchRule {
  readonly patterns: readonly Pattern[];
  readonly isUnlimited: boolean;
}

/** A pattern in the trie. */
interface Route extends Candidate {
  readonly parsed: Pattern;
  readonly candidate: Candidate;
  readonly isUnlimited: boolean;
  readonly hasUpperCase: boolean;
}

/** The result of a lookup. */
interface Match {
  /** All patterns that match, in written order. */
  readonly routes: readonly Route[];
  /** The only reading of a request with this result. */
  readonly readings: readonly [readonly Candidate[]];
  /** Whether the case of letters in the path matters. */
  readonly hasUpperCase: boolean;
  readonly hasUnlimited: boolean;
}

/** Lookups that are cached. Paths that differ in a `:name` only share one. */
const MAX_CACHED_MATCHES = 1000;
/** Patterns that are added in one step. */
const PATTERNS_PER_STEP = 50;
/** Stands for a segment that no pattern contains. Labels of literals are numbers. */
const OTHER = "x";

/** Matches requests against the patterns of all rules. */
export class Matcher {
  private readonly rules: readonly MatchRule[];
  private readonly caseSensitive: boolean;
  /**
   * The trie contains a number instead of each literal, and never sees what clients send: hono would read ":p" and "*" in
   * a request as the names of its own nodes, and take exponential time for "/:p/:p/:p".
   */
  private readonly trie: TrieRouter<Route> = new TrieRouter();
  private readonly labels: Map<string, string> = new Map();
  private readonly methods: Map<string, string> = new Map();
  private readonly matches: BoundedMap<string, Match> = new BoundedMap({ maxEntries: MAX_CACHED_MATCHES });
  /** Two more than the longest pattern, so that a truncated path is still too long for it without its trailing slash. */
  private maxSegments = 2;

  private constructor(rules: readonly MatchRule[], caseSensitive: boolean) {
    this.rules = rules;
    this.caseSensitive = caseSensitive;
  }

  /** Creates a matcher. */
  static *build(rules: readonly MatchRule[], caseSensitive: boolean): Steps<Matcher> {
    const matcher = new Matcher(rules, caseSensitive);
    yield* matcher.addRules();
    return matcher;
  }

  private *addRules(): Steps<void> {
    let [longest, added] = [0, 0];
    for (const [rule, { patterns, isUnlimited }] of this.rules.entries()) {
      for (const [pattern, parsed] of patterns.entries()) {
        const hasUpperCase = parsed.segments.some((literal) => literal !== literal?.toLowerCase());
        const route = { rule, pattern, parsed, candidate: { rule, pattern }, isUnlimited, hasUpperCase };
        this.trie.add("ALL", this.triePath(parsed), route);
        for (const method of parsed.methods ?? []) this.addMethod(method);
        longest = Math.max(longest, parsed.segments.length);
        if (++added % PATTERNS_PER_STEP === 0) yield;
      }
    }
    this.maxSegments = longest + 2;
  }

  /**
   * Returns the candidates of each distinct reading of a request target, in written order; first those of the path as sent.
   * An unlimited rule is a candidate only if it also matches the path as sent, byte by byte.
   */
  find(sentMethod: string, target: string): readonly (readonly Candidate[])[] {
    // Clients of HTTP/2 may send "post", which routers and the constructor of `Request` take for POST.
    const method = this.methods.has(sentMethod) ? sentMethod : sentMethod.toUpperCase();
    const query = target.indexOf("?");
    const path = query === -1 ? target : target.slice(0, query);
    if (isCanonical(path)) {
      const match = this.lookUp(method, path);
      if (this.caseSensitive || !match.hasUpperCase) return match.readings;
    }
    return this.findAll(method, path);
  }

  private findAll(method: string, path: string): readonly (readonly Candidate[])[] {
    const readings = readingsOf(path, this.maxSegments);
    const found: (readonly Candidate[])[] = [];
    const matches = readings.map((reading) => this.lookUp(method, this.fold(reading)));
    // Fastify routes "/" to "/:name" only if there is no route "/".
    if (path === "/" && matches[0]?.routes[0]?.parsed.segments.length === 0 && !matches[0].routes[0].parsed.isOpen) {
      matches.length = 1;
    }
    for (const { routes, readings, hasUnlimited } of new Set(matches)) {
      addDistinct(found, hasUnlimited ? this.candidatesOf(routes, method, path) : readings[0]);
    }
    if (this.caseSensitive) return found;
    for (const [index, { routes, hasUpperCase }] of matches.entries()) {
      const reading = readings[index] as string;
      if (!hasUpperCase && reading === this.fold(reading)) continue;
      // Case-sensitive routers skip the other patterns.
      const segments = reading.split("/");
      const sameCase = routes.filter(({ parsed }) => matchesLiterals(parsed.segments, segments));
      if (sameCase.length < routes.length) addDistinct(found, this.candidatesOf(sameCase, method, path));
    }
    return found;
  }

  private candidatesOf(routes: readonly Route[], method: string, path: string): readonly Candidate[] {
    return candidatesOf(routes.filter(({ rule, isUnlimited }) => !isUnlimited || this.isExempt(rule, method, path)));
  }

  /** Whether a pattern of a rule matches the path as sent, byte by byte. */
  private isExempt(rule: number, method: string, path: string): boolean {
    const segments = path === "/" ? [""] : path.split("/", this.maxSegments + 1);
    return (this.rules[rule] as MatchRule).patterns.some(({ methods, sentSegments, isOpen }) => {
      const rest = segments.length - 1 - sentSegments.length;
      if (!path.startsWith("/") || rest < 0 || (rest > 0 && !isOpen)) return false;
      return includesMethod(methods, method) && matchesLiterals(sentSegments, segments, true);
    });
  }

  /** Finds the patterns that match a path, with letters in lower case unless case matters. */
  private lookUp(method: string, path: string): Match {
    let key = this.methods.get(method) ?? "";
    let count = 0;
    for (let start = 1, end = 0; end !== -1 && count < this.maxSegments; start = end + 1, count++) {
      end = path.indexOf("/", start);
      const segment = end === -1 ? path.slice(start) : path.slice(start, end);
      key += segment === "" ? "/" : `/${this.labels.get(segment) ?? OTHER}`;
    }
    const cached = this.matches.get(key);
    if (cached) return cached;
    const routes = this.trie
      .match("ALL", key.slice(key.indexOf("/")))[0]
      .map(([route]) => route as Route)
      .filter(({ parsed }) => includesMethod(parsed.methods, method));
    const hasUpperCase = routes.some((route) => route.hasUpperCase);
    const hasUnlimited = routes.some((route) => route.isUnlimited);
    const match: Match = { routes, readings: [candidatesOf(routes)], hasUpperCase, hasUnlimited };
    this.matches.set(key, match);
    return match;
  }

  private triePath({ segments, isOpen }: Pattern): string {
    const path = segments
      .map((literal) => `/${literal === undefined ? ":p" : this.labelOf(this.fold(literal))}`)
      .join("");
    return isOpen ? `${path}/*` : path || "/";
  }

  private labelOf(literal: string): string {
    const label = this.labels.get(literal) ?? String(this.labels.size);
    this.labels.set(literal, label);
    return label;
  }

  private addMethod(method: string): void {
    if (method === "GET") this.addMethod("HEAD");
    if (!this.methods.has(method)) this.methods.set(method, String(this.methods.size));
  }

  private fold(text: string): string {
    return this.caseSensitive ? text : text.toLowerCase();
  }
}

/** The rules of patterns, each with its first pattern. */
function candidatesOf(routes: readonly Route[]): readonly Candidate[] {
  // The routes are in written order, so those of one rule are neighbours.
  return routes.filter(({ rule }, index) => rule !== routes[index - 1]?.rule).map(({ candidate }) => candidate);
}

/** Compares a pattern with a path that was split at "/". A `:name` may have to be non-empty. */
function matchesLiterals(
  literals: readonly (string | undefined)[],
  segments: readonly string[],
  requireNames = false,
): boolean {
  // The first segment is what comes before the first "/".
  return literals.every((literal, index) =>
    literal === undefined ? !requireNames || segments[index + 1] !== "" : literal === segments[index + 1],
  );
}

function addDistinct(lists: (readonly Candidate[])[], list: readonly Candidate[]): void {
  const isSame = (other: readonly Candidate[]) =>
    other.length === list.length && other.every((candidate, index) => candidate === list[index]);
  if (!lists.some(isSame)) lists.push(list);
}
