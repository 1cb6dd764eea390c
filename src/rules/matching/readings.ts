/** How routers read the path of a request: the same bytes reach different handlers on different servers. */

/** Stands for an empty segment that a router accepts as a `:name`. No literal contains it. */
const EMPTY_NAME = "\0";

/** Paths that every router reads the same way, apart from case. */
const PLAIN = /^(?:\/(?!\.\.?(?:\/|$))[A-Za-z0-9\-._~!$&+,=@:]+)+$/;
const CANONICAL = /^(?:\/(?!\.\.?(?:\/|$))[a-z0-9\-._~!$&+,=@:]+)+$/;

/** The scheme and authority of a target in absolute form. */
const ORIGIN = /^[A-Za-z][A-Za-z0-9+.-]*:\/\/[^/\\?#]*/;
/** What `new URL("//host/path", base)` reads as a host; it ignores further slashes. */
const HOST = /^\/{2,}[^/]*/;
const DOT_SEGMENT = /\/(?:\.|%2e){1,2}(?:\/|$)/i;
const ENCODED = /(?:%[0-9a-f]{2})+/gi;
/** Spaces, and everything beyond ASCII: clients always send these percent-encoded. */
const ALWAYS_ENCODED = /(?:%20|%[89a-f][0-9a-f])+/gi;

/**
 * Whether a path without query has a single reading, which is the path itself. `/` has two: Fastify routes it to `/:name`.
 */
export function isCanonical(path: string): boolean {
  return CANONICAL.test(path);
}

/**
 * Returns the distinct paths that supported routers read from a request target, first the path as sent. Segments beyond
 * `maxSegments` are dropped. The case of letters is kept.
 *
 * Besides the path as sent: Express ignores a trailing slash, a mounted router of Express 4 also duplicate slashes, and
 * it replaces backslashes if the target contains "#". Fastify decodes like `decodeURI`, accepts an empty `:name`, and has
 * options to ignore trailing and duplicate slashes. Hono decodes in the same way. `new URL` resolves dot segments, replaces
 * backslashes and reads `//host` as a host. The last reading applies everything at once, for handlers that do so themselves.
 *
 * Not covered: Fastify does not match a `:name` with more than `maxParamLength` characters (100 by default).
 */
export function readingsOf(target: string, maxSegments: number): readonly string[] {
  const query = target.indexOf("?");
  const path = query === -1 ? target : target.slice(0, query);
  if (PLAIN.test(path)) return [truncate(path, maxSegments)];
  const readings = new Set<string>();
  const whole = withoutOrigin(path);
  const fragment = whole.indexOf("#");
  const sent = fragment === -1 ? whole : whole.slice(0, fragment) || "/";
  addReadings(readings, sent, maxSegments);
  // A handler that compares the target itself sees the fragment.
  if (fragment !== -1) addReadings(readings, whole, maxSegments);
  const slashed = sent.replaceAll("\\", "/");
  // The legacy `url.parse`, which Express uses for unusual targets, also removes these spaces.
  if (/[\\\xa0\ufeff]/.test(sent)) addReadings(readings, slashed.trimEnd(), maxSegments);
  const hostless = slashed.replace(HOST, "") || "/";
  if (DOT_SEGMENT.test(slashed)) addReadings(readings, resolveDots(slashed, maxSegments), maxSegments);
  if (hostless !== slashed) addReadings(readings, resolveDots(hostless, maxSegments), maxSegments);
  if (sent.includes("%") || readings.size > 1) {
    for (const form of hostless === slashed ? [slashed] : [slashed, hostless]) {
      const decoded = form.replace(ENCODED, decodeAll).replaceAll("\\", "/");
      readings.add(withoutEmptySegments(resolveDots(decoded, maxSegments), maxSegments));
    }
  }
  return [...readings];
}

/** Adds a path as routers read it that differ in percent-encoding and slashes only. */
function addReadings(readings: Set<string>, path: string, maxSegments: number): void {
  const cut = truncate(path, maxSegments);
  const decoded = addDecoded(readings, cut);
  const hasEmptySegments = path.includes("//");
  const endsInSlash = path.endsWith("/");
  if (!hasEmptySegments && !endsInSlash) return;
  const decodedShort = addDecoded(readings, withoutEmptySegments(path, maxSegments));
  if (endsInSlash) readings.add(`${decodedShort === "/" ? "" : decodedShort}/${EMPTY_NAME}`);
  if (!hasEmptySegments) return;
  readings.add(withEmptyNames(decoded));
  if (endsInSlash && cut === path) readings.add(withEmptyNames(decoded.slice(0, -1)));
}

/** Adds a path as it is, and decoded like Fastify and Hono. Returns the latter. */
function addDecoded(readings: Set<string>, path: string): string {
  if (!path.includes("%")) {
    readings.add(path);
    return path;
  }
  // `decodeURI` without reserved characters and "%25", which both routers keep.
  const decoded = path.replace(ENCODED, decodeUnreserved);
  readings.add(path.replace(ALWAYS_ENCODED, decodeAll)).add(decoded);
  return decoded;
}

/** The path of a target, without the origin of one in absolute form. */
function withoutOrigin(target: string): string {
  if (target.startsWith("/")) return target;
  const path = target.replace(ORIGIN, "");
  return path.startsWith("/") ? path : `/${path.replace(/^\\/, "")}`;
}

/** The first segments of a path. */
function truncate(path: string, maxSegments: number): string {
  let end = 0;
  for (let count = 0; count < maxSegments; count++) {
    end = path.indexOf("/", end + 1);
    if (end === -1) return path;
  }
  return path.slice(0, end);
}

function withoutEmptySegments(path: string, maxSegments: number): string {
  return truncate(path.replace(/\/{2,}/g, "/").replace(/(?<=.)\/$/, ""), maxSegments);
}

function withEmptyNames(path: string): string {
  return path.replace(/\/(?=\/|$)/g, `/${EMPTY_NAME}`);
}

/** Resolves dot segments like `new URL`. Keeps the first segments only, and counts the others. */
function resolveDots(path: string, maxSegments: number): string {
  const kept: string[] = [];
  let dropped = 0;
  for (let start = 1; start <= path.length; ) {
    let end = path.indexOf("/", start);
    const isLast = end === -1;
    if (isLast) end = path.length;
    const dots = dotsIn(path, start, end);
    if (dots === 2 && dropped > 0) dropped--;
    else if (dots === 2) kept.pop();
    if (dots === 0 || isLast) {
      if (kept.length === maxSegments) dropped++;
      else kept.push(dots === 0 ? path.slice(start, end) : "");
    }
    start = end + 1;
  }
  return `/${kept.join("/")}`;
}

/** 1 for ".", 2 for "..", both also percent-encoded; 0 for any other segment. */
function dotsIn(path: string, start: number, end: number): 0 | 1 | 2 {
  if (end - start > 6 || start === end) return 0;
  const segment = path.slice(start, end).replace(/%2e/gi, ".");
  return segment === "." ? 1 : segment === ".." ? 2 : 0;
}

function decodeUnreserved(encoded: string): string {
  try {
    return decodeURI(encoded.replaceAll("%25", "%2525"));
  } catch {
    return encoded;
  }
}

function decodeAll(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}
