/**
 * What proxies write down about whom they heard from, nearest first. Both fields are read from the right, because a
 * proxy adds its entry there: whatever a client typed stands further left and can't change how that entry is read.
 */

/** No honest chain is longer, in characters and in entries. */
const MAX_LENGTH = 8192;
export const MAX_ENTRIES = 64;

/** The entries of `X-Forwarded-For`, nearest first: texts that may or may not be addresses. */
export function entriesOfXForwardedFor(field: string): string[] {
  return nearest(field, (text, end) => text.lastIndexOf(",", end - 1));
}

/** The `for` of each element of `Forwarded` (RFC 7239), nearest first; an empty text for one that is malformed. */
export function entriesOfForwarded(field: string): string[] {
  return nearest(field, commaOutsideQuotes).map(forOf);
}

/** Cuts a list from the right. An entry that is cut off by the longest length is as good as none. */
function nearest(field: string, commaBefore: (text: string, end: number) => number): string[] {
  const text = field.slice(-MAX_LENGTH);
  const entries: string[] = [];
  for (let end = text.length; end >= 0 && entries.length < MAX_ENTRIES; ) {
    const comma = end === 0 ? -1 : commaBefore(text, end);
    entries.push(comma < 0 && text !== field ? "" : text.slice(comma + 1, end));
    end = comma;
  }
  return entries;
}

/** Quotes are counted from the right too: one that a client left open swallows nothing of what a proxy added. */
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
// RFC 7239 requires quotes around a port, which many proxies leave out: for=192.0.2.43:47011, host=example.com:8080.
const PAIR = new RegExp(`(${TOKEN})=(${TOKEN}(?::\\d{1,5})?|${QUOTED})`, "y");

/** The one `for` of an element, without quotes and escapes; empty if the element is not well formed. */
function forOf(element: string): string {
  let found: string | undefined;
  let at = 0;
  for (;;) {
    at = pastBlanks(element, at);
    // Pairs between semicolons may be empty.
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

/** An address of IPv6 has brackets here, which keep it apart from a port. Blanks between quotes are part of the name. */
function nodeOf(value: string): string {
  const plain = value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, "$1") : value;
  return /[ \t]/.test(plain) || (plain.split(":").length > 2 && !plain.startsWith("[")) ? "" : plain;
}
