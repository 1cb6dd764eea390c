/** The code in the README and the documentation: where it is, what it says that it prints, and what has to run it. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT: string = fileURLToPath(new URL("..", import.meta.url));

/**
 * What runs a snippet, which its fence says in one word: "ts bun". Without one it is Node. "worker" is workerd, and
 * "before" is only shown. integration/ws/docs.test.ts runs those that need packages or runtimes of that folder.
 */
const KINDS = ["node", "worker", "bun", "deno", "socket.io", "ws-kit", "before"] as const;
export type Kind = (typeof KINDS)[number];

/** Code from a page. Its lines have the numbers that they have in the page. */
export interface Snippet {
  readonly page: string;
  readonly line: number;
  readonly extension: "ts" | "js";
  readonly kind: Kind;
  readonly lines: string[];
}

const guides = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" }).filter((file) =>
  file.endsWith(".md"),
);
export const pages: readonly string[] = ["README.md", ...guides.map((file) => join("docs", file)).sort()];
const snippets = pages.flatMap(snippetsOf);

/** The snippets of some kinds, in the order of the pages. */
export function snippetsOfKind(...kinds: readonly Kind[]): Snippet[] {
  return snippets.filter(({ kind }) => kinds.includes(kind));
}

export function read(file: string): string {
  return readFileSync(join(ROOT, file), "utf8");
}

function snippetsOf(page: string): Snippet[] {
  const found: Snippet[] = [];
  let open: Snippet | undefined;
  let fenced = false;
  for (const [i, line] of read(page).split("\n").entries()) {
    const [, fence] = /^\s*```(.*)$/.exec(line) ?? [];
    if (fence === undefined) {
      open?.lines.push(line);
      continue;
    }
    fenced = !fenced;
    open = undefined;
    const [language, ...more] = fence.trim().split(" ");
    if (!fenced || (language !== "ts" && language !== "js")) continue;
    const word = more.join(" ");
    if (word === "continue") {
      open = found.findLast(({ kind }) => kind !== "before");
      if (!open) throw new Error(`${page}:${i + 1} continues nothing`);
    } else {
      const kind = word === "" ? "node" : KINDS.find((kind) => kind === word && kind !== "node");
      // Nobody would run it.
      if (!kind) throw new Error(`${page}:${i + 1} is of an unknown kind: ${fence}`);
      open = { page, line: i + 1, extension: language, kind, lines: [] };
      found.push(open);
    }
    while (open.lines.length <= i) open.lines.push("");
  }
  return found;
}

export function nameOf({ page, line }: Snippet): string {
  return `${page.replaceAll("/", "-")}-${line}`;
}

/** Whether a snippet has a text in it. */
export function says({ lines }: Snippet, text: string): boolean {
  return lines.some((line) => line.includes(text));
}

/** The code of a snippet that tells the global `stage` what it prints, and on which line. */
export function stagedCode({ lines }: Snippet): string {
  return lines.map((line, i) => line.replace("console.log(", `globalThis.stage.log(${i + 1}, `)).join("\n");
}

/** What the lines of a snippet say that they print. */
export function promisesOf({ page, lines }: Snippet): Map<number, string> {
  const promises = new Map<number, string>();
  lines.forEach((line, i) => {
    if (!line.includes("console.log(")) return;
    const [whole, promise] = /console\.log\(.*\)[;,](?:\s*\/\/ (.*))?$/.exec(line) ?? [];
    if (whole === undefined) throw new Error(`${page}:${i + 1} a console.log has to stand on one line`);
    if (promise !== undefined) promises.set(i + 1, flat(promise));
  });
  return promises;
}

export function flat(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
