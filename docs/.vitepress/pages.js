/** Reads the title and the description of pages, for the sidebar, the list of all pages, and llms.txt. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { subpaths } from "../../scripts/subpaths.js";
import { pathOf, sections } from "./sidebar.js";

const DOCS = new URL("../", import.meta.url);

/** The source of a page, with its title and description. */
export function readPage(/** @type {string} */ path) {
  const text = readFileSync(fileURLToPath(new URL(path, DOCS)), "utf8");
  const [, title = ""] = /^# (.*)$/m.exec(text) ?? [];
  const [, quoted, plain = ""] = /^description: (?:"(.*)"|(.*))$/m.exec(text) ?? [];
  return { path, text, title: title.replaceAll("`", ""), description: quoted ?? plain };
}

/** The address of a page below the base of the site: "guide/index.md" -> "guide/". */
export function linkOf(/** @type {string} */ path) {
  return path.replace(/(^|\/)index\.md$/, "$1").replace(/\.md$/, "");
}

/**
 * The page of a subpath in docs/reference/, without its ending. The package itself has the page `sluice`.
 * @param {string} subpath
 */
export function referencePage(subpath) {
  return subpath === "." ? "sluice" : subpath.slice(2);
}

/** @typedef {{ text: string, link?: string, collapsed?: boolean, items?: Item[] }} Item An entry of VitePress's sidebar */

/**
 * The sidebar in the form of VitePress.
 * @returns {Item[]}
 */
export function makeSidebar() {
  return sections.map(({ text, collapsed, groups }) => ({
    text,
    ...(collapsed !== undefined && { collapsed }),
    items: groups.flatMap(({ text, pages }) => {
      const items = pages.map(makeItem);
      /** @type {Item[]} */
      const listed = text === undefined ? items : [{ text, collapsed: true, items }];
      return listed;
    }),
  }));
}

/**
 * @param {import("./sidebar.js").Entry} entry
 * @returns {Item}
 */
function makeItem(entry) {
  const path = pathOf(entry);
  const item = { text: typeof entry === "string" ? readPage(path).title : entry[1], link: `/${linkOf(path)}` };
  if (path !== "reference/index.md") return item;
  // Its pages are generated from the source.
  const items = subpaths.map(({ subpath, name }) => ({ text: name, link: `/reference/${referencePage(subpath)}` }));
  return { ...item, collapsed: true, items };
}

/** A list of all pages as markdown, without the page that shows it. `hrefOf` makes a link from a path in docs/. */
export function listPages(/** @type {(path: string) => string} */ hrefOf, /** @type {string} */ heading) {
  const lines = sections.flatMap(({ text, groups }) => [
    `${heading} ${text}`,
    "",
    ...groups.flatMap(({ text, pages }) => [
      ...(text === undefined ? [] : [`${heading}# ${text}`, ""]),
      ...pages
        .map(pathOf)
        .filter((path) => path !== "guide/index.md")
        .map(readPage)
        .map(({ path, title, description }) => `- [${title}](${hrefOf(path)}): ${description}`),
      "",
    ]),
  ]);
  return lines.join("\n").trimEnd();
}
