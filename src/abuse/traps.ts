/** Traps: paths that no legitimate client requests. */
import { optionError } from "../base/errors.ts";

const MAX_TRAPS = 1000;
const MAX_PATH_CHARS = 1024;

/** Returns a function that tells whether a request target is a trap. */
export function trapMatcher(traps: readonly string[]): (target: string) => boolean {
  if (!Array.isArray(traps) || traps.length === 0 || traps.length > MAX_TRAPS) {
    throw optionError(
      "invalid-option",
      "traps",
      `a list of 1 to ${MAX_TRAPS} paths, such as ["/.env", "/.git/*"]`,
      traps,
    );
  }
  const exact = new Set<string>();
  const prefixes: string[] = [];
  for (const [i, trap] of traps.entries()) {
    if (typeof trap !== "string" || !/^\/[^?#*\s]+$|^\/[^?#*\s]+\/\*$/.test(trap)) {
      throw optionError("invalid-option", `traps[${i}]`, 'a path such as "/wp-login.php" or "/.git/*"', trap);
    }
    const path = normalize(trap.replace(/\/\*$/, ""));
    if (path === "") throw optionError("invalid-option", `traps[${i}]`, "a path below /", trap);
    exact.add(path);
    if (trap.endsWith("/*")) prefixes.push(`${path}/`);
  }
  return (target) => {
    const path = normalize(target);
    return exact.has(path) || prefixes.some((prefix) => path.startsWith(prefix));
  };
}

/** The path of a target without its query, decoded once, in lower case, without empty segments. */
function normalize(target: string): string {
  const path = (/^(?:[a-z][a-z\d+.-]*:\/\/[^/?#]*)?([^?#]*)/i.exec(target.slice(0, MAX_PATH_CHARS))?.[1] ?? "").replace(
    /%([\da-f]{2})/gi,
    (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return path
    .toLowerCase()
    .replace(/\/{2,}/g, "/")
    .replace(/\/$/, "");
}

/** Reads headers of a request. */
interface HeaderReader {
  header(name: string): string | undefined;
}

/**
 * Whether a web page may have caused the request: any page can send its visitors to a trap with a link, an image or a
 * script, and users may embed one in their posts. Browsers report the page in Sec-Fetch-Site, older ones in Referer or
 * Origin. A request of the address bar has none of them, like that of a scanner.
 */
export function mayBeCausedByPage(request: HeaderReader): boolean {
  const isPrefetch = (request.header("sec-purpose") ?? request.header("purpose") ?? "").includes("prefetch");
  const site = request.header("sec-fetch-site");
  if (isPrefetch || (site !== undefined && site !== "none")) return true;
  return (request.header("referer") ?? request.header("origin")) !== undefined;
}
