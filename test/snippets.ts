/** Reads the snippets of the README and the docs: position, expected output and runtime. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT: string = fileURLToPath(new URL("..", import.meta.url));

/**
 * The runtime of a snippet, from a word after the language: "ts bun". Default: Node. "worker" is workerd, and "before" is
 * not run. integration/ws/docs.test.ts runs the snippets that need packages or runtimes of that folder. Those of "nestjs",
 * "trpc" and "framework" are files of apps, or parts of them, that the folders in integration/ build and run.
 */
const KINDS = [
  "node",
  "worker",
  "bun",
  "deno",
  "socket.io",
  "ws-kit",
  "nestjs",
  "trpc",
  "before",
  "framework",
] as const;
export type Kind = (typeof KINDS)[number];

/** Code from a page, with its hidden setup and teardown. Line numbers are those of the page. */
export interface Snippet {
  readonly page: string;
  readonly line: number;
  readonly extension: "ts" | "js" | "tsx";
  readonly kind: Kind;
  readonly lines: string[];
}

/** A comment that no renderer shows: `<!-- ts setup`, code, `-->` before a block, or `<!-- ts teardown` after it. */
const HIDDEN = /^\s*<!-- (?:ts|js) (\S+)\s*(.*?)\s*(-->)?$/;

/** The pages in docs/, without packages and what `npm run docs:build` generates. */
const guides = readdirSync(join(ROOT, "docs"), { withFileTypes: true })
  .filter(({ name }) => name !== "node_modules" && !name.startsWith("."))
  .flatMap((entry) =>
    entry.isDirectory()
      ? readdirSync(join(ROOT, "docs", entry.name)).map((file) => `${entry.name}/${file}`)
      : entry.name,
  )
  .filter((file) => file.endsWith(".md") && (!file.startsWith("reference/") || file === "reference/index.md"));
export const pages: readonly string[] = ["README.md", ...guides.map((file) => `docs/${file}`).sort()];
const snippets = pages.flatMap(snippetsOf);

/** The snippets of the given kinds, in the order of the pages. */
export function snippetsOfKind(...kinds: readonly Kind[]): Snippet[] {
  return snippets.filter(({ kind }) => kinds.includes(kind));
}

export function read(file: string): string {
  return readFileSync(join(ROOT, file), "utf8");
}

function snippetsOf(page: string): Snippet[] {
  return parseSnippets(page, read(page));
}

/** The snippets of a page, with their hidden code. */
export function parseSnippets(page: string, text: string): Snippet[] {
  const found: Snippet[] = [];
  let open: Snippet | undefined;
  let fenced = false;
  /** Hidden setup lines for the next block. */
  let setup: [line: number, code: string][] = [];
  /** The previous snippet, if only blank lines and comments follow it. */
  let above: Snippet | undefined;
  let hidden: "setup" | "teardown" | undefined;
  const hide = (i: number, code: string): void => {
    if (hidden === "setup") setup.push([i, code]);
    else putLine(above as Snippet, i, code);
  };
  for (const [i, line] of text.split("\n").entries()) {
    const where = `${page}:${i + 1}`;
    if (hidden) {
      if (line.trim() === "-->") hidden = undefined;
      else hide(i, line);
      continue;
    }
    const [comment, word, code = "", end] = (!fenced && HIDDEN.exec(line)) || [];
    if (comment !== undefined) {
      if (word !== "setup" && word !== "teardown") throw new Error(`${where} must be setup or teardown`);
      if (word === "teardown" && !above) throw new Error(`${where} is a teardown without a block before it`);
      hidden = word;
      if (code !== "") hide(i, code);
      if (end) hidden = undefined;
      continue;
    }
    const [, fence] = /^\s*```(.*)$/.exec(line) ?? [];
    if (fence === undefined) {
      if (open) putLine(open, i, line);
      // A container such as a group of tabs may begin or end between a block and its hidden code.
      else if (line.trim() !== "" && !fenced && !line.trim().startsWith(":::")) {
        if (setup.length > 0) throw new Error(`${where} is between a setup and its block`);
        above = undefined;
      }
      continue;
    }
    fenced = !fenced;
    if (!fenced) above = open;
    open = undefined;
    // "ts worker [Hono]": a block may have the title of a tab.
    const [language, ...more] = fence
      .replace(/ \[[^\]]+\]$/, "")
      .trim()
      .split(" ");
    if (!fenced || (language !== "ts" && language !== "js" && language !== "tsx")) {
      if (setup.length > 0) throw new Error(`${where} can't have a setup`);
      continue;
    }
    const kindWord = more.join(" ");
    if (kindWord === "continue") {
      open = found.findLast(({ kind }) => kind !== "before" && kind !== "framework");
      if (!open) throw new Error(`${where} continues no snippet`);
    } else {
      const kind = kindWord === "" ? "node" : KINDS.find((kind) => kind === kindWord && kind !== "node");
      // No test would run it.
      if (!kind || (language === "tsx" && kind !== "framework")) {
        throw new Error(`${where} has an unknown runtime: ${fence}`);
      }
      open = { page, line: i + 1, extension: language, kind, lines: [] };
      found.push(open);
    }
    for (const [at, code] of setup) putLine(open, at, code);
    setup = [];
  }
  if (hidden || setup.length > 0) throw new Error(`${page} ends with a setup or teardown without a block`);
  return found;
}

/** Pads code with empty lines to keep the line numbers of the page. */
function putLine({ lines }: Snippet, i: number, code: string): void {
  while (lines.length < i) lines.push("");
  lines[i] = code;
}

export function nameOf({ page, line }: Snippet): string {
  return `${page.replaceAll("/", "-")}-${line}`;
}

/** The file that contains a snippet of a framework, from the comment above it: `<!-- file: integration/koa/app.ts -->`. */
export function fileOf({ page, line }: Snippet): string {
  const [, file] = /^<!-- file: (\S+) -->$/.exec(read(page).split("\n")[line - 2] ?? "") ?? [];
  if (file === undefined) throw new Error(`${page}:${line} does not name its file in the line above`);
  return file;
}

/** Whether a snippet contains a text. */
export function says({ lines }: Snippet, text: string): boolean {
  return lines.some((line) => line.includes(text));
}

/** The code of a snippet, with `console.log` replaced by a call that reports value and line to the global `stage`. */
export function stagedCode({ lines }: Snippet): string {
  return lines.map((line, i) => line.replace("console.log(", `globalThis.stage.log(${i + 1}, `)).join("\n");
}

/** The expected output per line of a snippet. */
export function promisesOf({ page, lines }: Snippet): Map<number, string> {
  const promises = new Map<number, string>();
  lines.forEach((line, i) => {
    if (!line.includes("console.log(")) return;
    const [whole, promise] = /console\.log\(.*\)[;,](?:\s*\/\/ (.*))?$/.exec(line) ?? [];
    if (whole === undefined) throw new Error(`${page}:${i + 1} a console.log must be on one line`);
    if (promise !== undefined) promises.set(i + 1, flat(promise));
  });
  return promises;
}

export function flat(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

/** Code whose servers listen on a free loopback port: port 3000 of the pages may be in use. */
export function onPort(code: string, port: number): string {
  return code
    .replaceAll(".listen(3000", `.listen(${port}, "127.0.0.1"`)
    .replace(/\bport: 3000\b/g, `hostname: "127.0.0.1", host: "127.0.0.1", port: ${port}`)
    .replaceAll("localhost:3000", `127.0.0.1:${port}`)
    .replace(/\b3000\b/g, `${port}`);
}
