/**
 * Parses `X-Forwarded-For` and `Forwarded`, nearest hop first. Both are parsed from the right, where proxies append
 * their entry: text that a client sent is further left and can't change how that entry is parsed.
 */

/** The last characters and entries of a field that are parsed. Real chains are shorter. */
const MAX_CHARS = 8192;
/** The last entries of a field that are parsed, and the highest number of proxies. */
export const MAX_ENTRIES = 64;

/** The entries of `X-Forwarded-For`, nearest first. An entry is not necessarily an address. */
export function entriesOfXForwardedFor(field: string): string[] {
  return nearest(field, (text, end) => text.lastIndexOf(",", end - 1));
}

/** The `for` of each element of `Forwarded` (RFC 7239), nearest first; an empty string for a malformed element. */
export function entriesOfForwarded(field: string): string[] {
  return nearest(field, commaOutsideQuotes).map(forOf);
}

/** Splits a list from the right. An entry that exceeds the maximum length becomes an empty string. */
function nearest(field: string, commaBefore: (text: string, end: number) => number): string[] {
  const text = field.slice(-MAX_CHARS);
  const entries: string[] = [];
  for (let end = text.length; end >= 0 && entries.length < MAX_ENTRIES; ) {
    const comma = end === 0 ? -1 : commaBefore(text, end);
    entries.push(comma < 0 && text !== field ? "" : text.slice(comma + 1, end));
    end = comma;
  }
  return entries;
}

/** Quotes are matched from the right as well, so an open quote of a client does not swallow a proxy's entry. */
function commaOutsideQuotes(text: string, end: number): number {
  let quoted = false;
  for (let at = end - 1; at >= 0; at--) {
    if (text[at] === '"' && !isEscaped(text, at)) quoted = !quoted;
    else if (text[at] === "," && !quoted) return at;
  }
  return -1;
}

function isEscaped(text: string, at: number): boolean {
  let slashes = 0;
  while (text[at - 1 - slashes] === "\\") slashes++;
  return slashes % 2 === 1;
}

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const QUOTED = '"(?:[\\t -!#-\\[\\]-~\\u0080-\\u00ff]|\\\\[\\t -~\\u0080-\\u00ff])*"';
// RFC 7239 requires quotes around a port; many proxies omit them: for=192.0.2.43:47011, host=example.com:8080.
const PAIR = new RegExp(`(${TOKEN})=(${TOKEN}(?::\\d{1,5})?|${QUOTED})`, "y");

/** The `for` of an element, unquoted; empty if the element is malformed or has two of them. */
function forOf(element: string): string {
  let found: string | undefined;
  let at = 0;
  for (;;) {
    at = pastBlanks(element, at);
    // Empty pairs between semicolons are valid.
    if (at < element.length && element[at] !== ";") {
      PAIR.lastIndex = at;
      const [whole, name, value = ""] = PAIR.exec(element) ?? [];
      if (whole === undefined) return "";
      if (name?.toLowerCase() === "for") {
        if (found !== undefined) return "";
        found = nodeOf(value);
      }
      at = pastBlanks(element, at + whole.length);
    }
    if (at === element.length) return found ?? "";
    if (element[at] !== ";") return "";
    at++;
  }
}

function pastBlanks(text: string, at: number): number {
  while (text[at] === " " || text[at] === "\t") at++;
  return at;
}

/** An IPv6 address requires brackets, which separate it from a port. A value with blanks is not an address. */
function nodeOf(value: string): string {
  const plain = value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, "$1") : value;
  return /[ \t]/.test(plain) || (plain.split(":").length > 2 && !plain.startsWith("[")) ? "" : plain;
}
