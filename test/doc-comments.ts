/**
 * Finds the exports of the package, and members of exported interfaces and classes, that have no doc comment. Reads the source as
 * text: every exported declaration starts in the first column, after its comment.
 */
import { dirname, join } from "node:path";
import { read } from "./snippets.ts";

interface Declaration {
  readonly kind: string;
  readonly name: string;
  readonly documented: boolean;
  readonly exported: boolean;
  /** The text before the braces. */
  readonly head: string;
  /** The text between the braces of an interface or class. */
  readonly body: string;
}

/** An export, or a member of one, without a doc comment. */
export interface Undocumented {
  readonly file: string;
  readonly name: string;
}

/** The exports of an entry file, with the file that declares each. `export *` is followed. */
export function exportsOf(file: string): { name: string; file: string }[] {
  const source = read(file);
  const found: { name: string; file: string }[] = [];
  for (const [, list = "", from = ""] of source.matchAll(/^export (?:type )?\{([^}]*)\} from "([^"]+)";/gm)) {
    const names = list.split(",").map((part) => part.trim().replace(/^type /, ""));
    found.push(...names.filter(Boolean).map((name) => ({ name, file: join(dirname(file), from) })));
  }
  for (const [, from = ""] of source.matchAll(/^export (?:type )?\* from "([^"]+)";/gm)) {
    found.push(...exportsOf(join(dirname(file), from)));
  }
  const rest = source
    .replace(/^export (?:type )?(?:\{[^}]*\}|\*) from "[^"]+";/gm, "")
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .trim();
  if (found.length === 0 || rest) throw new Error(`${file} must contain only export lists, but contains: ${rest}`);
  return found;
}

/** What is undocumented of an export that a file declares. `source` replaces the file in tests. */
export function undocumentedOf(file: string, name: string, source = read(file)): Undocumented[] {
  const all = declarationsOf(source);
  const own = all.filter((one) => one.name === name && one.exported);
  if (own.length === 0) throw new Error(`${file} does not declare ${name}`);
  // One comment describes all overloads of a function.
  const missing = own.every(({ documented }) => !documented) ? [{ file, name }] : [];
  const members = own.flatMap((one) => undocumentedMembers(one, all).map((member) => `${name}.${member}`));
  return [...missing, ...members.map((name) => ({ file, name }))];
}

/** Every declaration in the first column of a file. */
function declarationsOf(source: string): Declaration[] {
  const pattern =
    /^(\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n)?(?:\/\/ .*\n)*(export )?(?:declare )?(?:abstract )?(interface|type|function|async function|class|const) (\w+)/gm;
  return [...source.matchAll(pattern)].map((match) => {
    const [whole, doc, exported, kind = "", name = ""] = match;
    const start = match.index + whole.length;
    const hasBody = kind === "interface" || kind === "class";
    const open = hasBody ? endOf(source, start, "{") : start;
    const body = hasBody ? source.slice(open + 1, endOf(source, open + 1, "}")) : "";
    const head = source.slice(start, open);
    return { kind, name, documented: doc !== undefined, exported: exported !== undefined, head, body };
  });
}

/** The undocumented members of an interface or class, and of its parents in the same file that are not exported. */
function undocumentedMembers({ body, head, kind }: Declaration, all: readonly Declaration[]): string[] {
  const missing: string[] = [];
  let at = 0;
  // Comments of overloads and of the two halves of an accessor apply to each.
  const described = new Set<string>();
  while (at < body.length) {
    const [space = "", doc] =
      /^\s*(?:\/\/.*\n\s*)*(\/\*\*(?:(?!\*\/)[\s\S])*\*\/\s*(?:\/\/.*\n\s*)*)?/.exec(body.slice(at)) ?? [];
    const start = at + space.length;
    const { end, next } = memberEnd(body, start, kind);
    const text = body.slice(start, end).trim();
    at = next;
    // Private members are not in the reference, and `?: never` only rejects the options of another algorithm.
    if (text === "" || /^(?:private|protected|#)|\?: never$|^constructor\b|^static(?: \{|$)/.test(text)) continue;
    const name = memberName(text);
    if (doc !== undefined) described.add(name);
    else if (!described.has(name)) missing.push(name);
  }
  const parents = all.filter((one) => !one.exported && one.body !== "" && new RegExp(`\\b${one.name}\\b`).test(head));
  return [...missing, ...parents.flatMap((parent) => undocumentedMembers(parent, all))];
}

/** `readonly limit?: number` -> `limit`; a call signature is named `()`. */
function memberName(text: string): string {
  const [, name] = /^(?:(?:readonly|static|override|async|declare|get|set|new) )*(\[[^\]]+\]|[\w$]+)/.exec(text) ?? [];
  return name ?? "()";
}

/** A member ends at its semicolon; a constructor or method of a class at its body. */
function memberEnd(body: string, start: number, kind: string): { end: number; next: number } {
  const semicolon = endOf(body, start, ";");
  const open = kind === "class" ? endOf(body, start, " {\n") : body.length;
  if (open >= semicolon) return { end: semicolon, next: semicolon + 1 };
  return { end: open, next: endOf(body, open + 2, "}") + 1 };
}

/** The next position of `stop` outside of brackets, strings and comments. */
function endOf(source: string, start: number, stop: string): number {
  let depth = 0;
  for (let i = start; i < source.length; i++) {
    const char = source[i] as string;
    if (source.startsWith("/*", i)) i = source.indexOf("*/", i) + 1;
    else if (source.startsWith("//", i)) i = source.indexOf("\n", i) - 1;
    else if (depth === 0 && source.startsWith(stop, i)) return i;
    else if (char === '"' || char === "`") i = source.indexOf(char, i + 1);
    else if ("({[".includes(char)) depth++;
    else if (")}]".includes(char)) depth--;
  }
  return source.length;
}
