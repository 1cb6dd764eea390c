/** How routers read the path of a request: the same bytes reach different handlers on different servers. */

/** Stands for an empty segment that a router accepts as a `:name`. No literal contains it. */
const EMPTY_NAME = "\0";

/** Paths that every router reads the same way, apart from case. */
const PLAIN = /^(?:\/(?!\.\.?(?:\/|$))[A-Za-z0-9\-._~!$&+,=@:]+)+$/;
const CANONICAL = /^(?:\/(?!\.\.?(?:\/|$))[a-z0-9\-._~!$&+,=@:]+)+$/;

/** The scheme and authority of a target in absolute form. */
const ORIGIN = /^[A-Za-z][A-Za-z0-9+.-]*:\/\/[^/\\?#]*/;
const STARTS_LIKE_A_TARGET = /^(?:\/|https?:\/\/)/i;
/** What `new URL("//host/path", base)` reads as a host; it ignores further slashes. */
const HOST = /^\/{2,}[^/]*/;
const DOTTED_I = "\u0130";
const DOT = 0x2e;
const PERCENT = 0x25;
const DOT_SEGMENT = /\/(?:\.|%2e){1,2}(?:\/|$)/i;
const NEXT_BYTE = "%[89ab][0-9a-f]";
const BEYOND_ASCII = [
  `%(?:c[2-9a-f]|d[0-9a-f])${NEXT_BYTE}`,
  `%(?:e0%[ab][0-9a-f]|ed%[89][0-9a-f]|e[1-9a-cef]${NEXT_BYTE})${NEXT_BYTE}`,
  `%(?:f0%[9ab][0-9a-f]|f4%8[0-9a-f]|f[1-3]${NEXT_BYTE})(?:${NEXT_BYTE}){2}`,
].join("|");
/** Valid UTF-8 only, because thousands of exceptions would make one request expensive. */
const ENCODED = new RegExp(`(?:%[0-7][0-9a-f]|${BEYOND_ASCII})+`, "gi");
/** Spaces, and everything beyond ASCII: clients always send these percent-encoded. */
const ALWAYS_ENCODED = new RegExp(`(?:%20|${BEYOND_ASCII})+`, "gi");

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
 * options to ignore trailing and duplicate slashes and what follows a semicolon. Hono decodes in the same way. `new URL` resolves dot segments, replaces
 * backslashes and reads `//host` as a host. Handlers may also decode everything, or do all of this at once.
 *
 * Not covered: Fastify does not match a `:name` with more than `maxParamLength` characters (100 by default).
 */
export function readingsOf(target: string, maxSegments: number): readonly string[] {
  const query = target.indexOf("?");
  const path = query === -1 ? target : target.slice(0, query);
  const readings = readingsOfPath(path, maxSegments);
  const semicolon = path.indexOf(";");
  if (semicolon === -1) return readings;
  return [...new Set([...readings, ...readingsOfPath(path.slice(0, semicolon), maxSegments)])];
}

function readingsOfPath(path: string, maxSegments: number): readonly string[] {
  if (PLAIN.test(path)) return [truncate(path, maxSegments)];
  const readings = new Set<string>();
  const whole = withoutOrigin(path);
  const fragment = whole.indexOf("#");
  const sent = fragment === -1 ? whole : whole.slice(0, fragment) || "/";
  addReadings(readings, sent, maxSegments);
  // A handler that compares the target itself sees the fragment.
  if (fragment !== -1) addReadings(readings, whole, maxSegments);
  // Fastify ignores the first character, whatever it is: "*v1/login" reaches "/v1/login" (find-my-way 9.10).
  if (!STARTS_LIKE_A_TARGET.test(path)) addReadings(readings, `/${path.slice(1).split("#", 1)}`, maxSegments);
  const slashed = sent.replaceAll("\\", "/");
  // The legacy `url.parse`, which Express uses for targets with "#" or one of these spaces, removes both.
  if (/[\\\xa0\ufeff]/.test(sent)) addReadings(readings, slashed.trimEnd(), maxSegments);
  // A router of Express that is mounted at "/v1" reads "/v1\login#" as "//login".
  const cut = truncate(slashed, maxSegments);
  for (let at = sent.indexOf("\\"); at !== -1 && at < cut.length; at = sent.indexOf("\\", at + 1)) {
    addDecoded(readings, `${slashed.slice(0, at)}//`);
  }
  const resolved = resolveDots(slashed);
  if (DOT_SEGMENT.test(slashed)) addReadings(readings, resolved, maxSegments);
  const hostless = withoutHost(path, slashed);
  const resolvedHostless = hostless === slashed ? resolved : resolveDots(hostless);
  if (hostless !== slashed) addReadings(readings, resolvedHostless, maxSegments);
  if (!sent.includes("%")) return [...readings.add(withoutEmptySegments(resolvedHostless, maxSegments))];
  for (const form of new Set([sent, resolved, resolvedHostless])) {
    readings.add(truncate(decodeAll(form), maxSegments));
  }
  for (const form of new Set([slashed, hostless])) {
    const decoded = decodeAll(form).replaceAll("\\", "/");
    readings.add(withoutEmptySegments(resolveDots(decoded), maxSegments));
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
  const decoded = decodeUnreserved(path);
  readings.add(path.replace(ALWAYS_ENCODED, decodeURIComponent)).add(decoded);
  // Two characters in lower case: Fastify without `caseSensitive` then finds no further segment, only a "*" (find-my-way 9.10).
  if (decoded.includes(DOTTED_I)) {
    const segments = decoded.split("/").map((segment) => (segment.includes(DOTTED_I) ? "" : segment));
    readings.add(segments.join("/"));
  }
  return decoded;
}

/** The path of a target, without the origin of one in absolute form. */
function withoutOrigin(target: string): string {
  if (target.startsWith("/")) return target;
  const path = target.replace(ORIGIN, "");
  return path.startsWith("/") ? path : `/${path.replace(/^\\/, "")}`;
}

/** The path that `new URL` reads from a target whose path starts with "//host", or that has no host after "http://". */
function withoutHost(target: string, slashed: string): string {
  const isAbsolute = ORIGIN.test(target);
  if (!isAbsolute && !slashed.startsWith("//")) return slashed;
  const fromHost = isAbsolute ? target.slice(target.indexOf(":") + 1).split("#", 1)[0] : slashed;
  return (fromHost as string).replaceAll("\\", "/").replace(HOST, "") || "/";
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

/** The first segments of a path that are not empty. */
function withoutEmptySegments(path: string, maxSegments: number): string {
  let result = "";
  let count = 0;
  for (let start = 1; start < path.length && count < maxSegments; ) {
    let end = path.indexOf("/", start);
    if (end === -1) end = path.length;
    if (end > start) {
      result += path.slice(start - 1, end);
      count++;
    }
    start = end + 1;
  }
  return result || "/";
}

function withEmptyNames(path: string): string {
  return path.replace(/\/(?=\/|$)/g, `/${EMPTY_NAME}`);
}

/** Resolves dot segments like `new URL`. The result is not truncated: empty segments are removed from it later. */
function resolveDots(path: string): string {
  const kept: string[] = [];
  for (let start = 1; start <= path.length; ) {
    let end = path.indexOf("/", start);
    const isLast = end === -1;
    if (isLast) end = path.length;
    const dots = dotsIn(path, start, end);
    if (dots === 2) kept.pop();
    if (dots === 0) kept.push(path.slice(start, end));
    else if (isLast) kept.push("");
    start = end + 1;
  }
  return `/${kept.join("/")}`;
}

/** 1 for ".", 2 for "..", both also percent-encoded; 0 for any other segment. */
function dotsIn(path: string, start: number, end: number): 0 | 1 | 2 {
  const first = path.charCodeAt(start);
  if (end - start > 6 || (first !== DOT && first !== PERCENT)) return 0;
  const segment = path.slice(start, end).replace(/%2e/gi, ".");
  return segment === "." ? 1 : segment === ".." ? 2 : 0;
}

/** Decodes like Fastify and Hono: `decodeURI`, which keeps reserved characters, and "%25" is kept as well. */
function decodeUnreserved(text: string): string {
  return text.replace(ENCODED, (encoded) => decodeURI(encoded.replaceAll("%25", "%2525")));
}

function decodeAll(text: string): string {
  return text.replace(ENCODED, decodeURIComponent);
}
