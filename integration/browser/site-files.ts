/** Reads the built site without a browser: its pages, and where their links lead. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { BASE, DIST, fileOf } from "./site-server.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const { homepage, repository } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const repositoryUrl: string = repository.url.replace(/^git\+|\.git$/g, "");

/** The address of every page below the base: "", "guide/", "errors". */
export function sitePages(): string[] {
  return readdirSync(DIST, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".html") && file !== "404.html")
    .map((file) => file.replace(/(^|\/)index\.html$/, "$1").replace(/\.html$/, ""))
    .sort();
}

/** The text of a file of the site. */
export function readSite(file: string): string {
  return readFileSync(join(DIST, file), "utf8");
}

/** The links of a page that lead nowhere. Links to other sites are not followed. */
export function brokenLinks(page: string): string[] {
  const html = readSite(fileOf(BASE + page) as string);
  const targets = [...html.matchAll(/<(?:a|link|img|script)\b[^>]*?\s(?:href|src)="([^"]*)"/g)].map(([, target]) =>
    (target as string).replaceAll("&amp;", "&"),
  );
  return [...new Set(targets)].filter((target) => !leadsSomewhere(page, target));
}

function leadsSomewhere(page: string, target: string): boolean {
  const file = [`${repositoryUrl}/blob/main/`, `${repositoryUrl}/edit/main/`].find((url) => target.startsWith(url));
  if (file) return existsSync(join(ROOT, target.slice(file.length).replace(/#.*/, "")));
  const url = new URL(target, homepage + page);
  if (!url.href.startsWith(homepage)) return url.protocol === "https:";
  const found = fileOf(url.pathname);
  if (found === undefined) return false;
  return url.hash === "" || anchorsOf(found).has(decodeURIComponent(url.hash.slice(1)));
}

const anchors = new Map<string, Set<string>>();

/** The ids in a file, read once. */
function anchorsOf(file: string): Set<string> {
  const known = anchors.get(file);
  if (known) return known;
  const ids = new Set([...readSite(file).matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id as string));
  anchors.set(file, ids);
  return ids;
}
