/** Patterns of rules: `"GET|HEAD /v1/users/:id"`. */

/** Longer patterns are rejected, in characters. */
const MAX_PATTERN_CHARS = 1000;
/** Patterns with more segments are rejected: the cost of a lookup grows with the longest pattern. */
const MAX_SEGMENTS = 16;

/** A method: an RFC 9110 token in upper case that starts with a letter, so that "*" is not one. */
const METHOD = /^[A-Z][A-Z0-9!#$%&'+.^_`~-]*$/;
/** Other routers use these for all methods. Here, they would be methods that no client sends. */
const ALL_METHODS_ELSEWHERE = /^(?:ALL|ANY)$/;
/** `:from-:to` and `:id.json` are patterns within a segment, which are not supported. */
const NAME = /^:[A-Za-z_][A-Za-z0-9_]*$/;
/**
 * The characters of a literal, once decoded: those that every client sends as they are, the space, and everything beyond
 * ASCII that is neither a control character nor a separator. Routers disagree about the encoding of all others.
 */
const LITERAL = /^(?:[A-Za-z0-9\-._~!$&+,;=@: ]|(?!\p{ASCII})[^\p{C}\p{Z}])+$/u;

/** A parsed pattern. */
export interface Pattern {
  /** As written. */
  readonly text: string;
  /** The methods; `undefined`: all. GET includes HEAD. */
  readonly methods: readonly string[] | undefined;
  /** Literal segments, percent-decoded, or `undefined` for a `:name`. */
  readonly segments: readonly (string | undefined)[];
  /** The same segments as clients send them: percent-encoded where necessary. */
  readonly sentSegments: readonly (string | undefined)[];
  /** Whether it ends in `*`, which matches zero or more segments. */
  readonly isOpen: boolean;
}

/**
 * Parses `[METHODS ]PATH`. Returns `undefined` if the text is not a pattern. Percent-encoding in a literal is decoded, so
 * that `/caf%C3%A9` and `/café` are the same pattern.
 */
export function parsePattern(text: string): Pattern | undefined {
  if (text.length > MAX_PATTERN_CHARS) return undefined;
  const space = text.indexOf(" ");
  const methods = space === -1 ? undefined : parseMethods(text.slice(0, space));
  if (space !== -1 && !methods) return undefined;
  const path = text.slice(space + 1);
  if (!path.startsWith("/")) return undefined;
  const parts = path === "/" ? [] : path.slice(1).split("/");
  const isOpen = parts.at(-1) === "*";
  if (isOpen) parts.pop();
  if (parts.length > MAX_SEGMENTS) return undefined;
  const segments: (string | undefined)[] = [];
  for (const part of parts) {
    const isName = part.startsWith(":");
    const literal = isName ? undefined : parseLiteral(part);
    if (isName ? !NAME.test(part) : literal === undefined) return undefined;
    segments.push(literal);
  }
  return { text, methods, segments, sentSegments: segments.map((literal) => literal && encodeURI(literal)), isOpen };
}

/** Whether a pattern includes requests with this method. */
export function includesMethod(methods: readonly string[] | undefined, method: string): boolean {
  return !methods || methods.includes(method) || (method === "HEAD" && methods.includes("GET"));
}

function parseMethods(text: string): string[] | undefined {
  const methods = [...new Set(text.split("|"))];
  return methods.every((method) => METHOD.test(method) && !ALL_METHODS_ELSEWHERE.test(method)) ? methods : undefined;
}

function parseLiteral(part: string): string | undefined {
  // A space that is not encoded is probably a typing error.
  if (part.includes(" ")) return undefined;
  const literal = decode(part);
  return literal !== undefined && LITERAL.test(literal) && literal !== "." && literal !== ".." ? literal : undefined;
}

function decode(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}
