/** How the site renders what is specific to the repository: anchors as on GitHub, and links to files that are not pages. */
import { posix } from "node:path";

/** The anchor of a heading as GitHub makes it, so that one link works on both. */
export function slugify(/** @type {string} */ heading) {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_\- ]/gu, "")
    .replaceAll(" ", "-");
}

/** Makes links to other files of the repository absolute, and links to pages of the site relative. */
export function rewriteLinks(/** @type {any} */ md, /** @type {Addresses} */ addresses) {
  md.core.ruler.push("repository-links", (/** @type {any} */ state) => {
    for (const { children } of state.tokens) {
      for (const token of children ?? []) {
        if (token.type !== "link_open") continue;
        token.attrSet("href", rewriteLink(token.attrGet("href"), state.env.relativePath ?? "", addresses));
      }
    }
  });
}

/**
 * The target of a link on a page of docs/.
 * @param {string} href
 * @param {string} page
 * @param {Addresses} addresses
 */
export function rewriteLink(href, page, { homepage, repositoryUrl }) {
  const docs = `${repositoryUrl}/blob/main/docs/`;
  if (href.startsWith(docs) && /\.md(?:#|$)/.test(href)) return `/${href.slice(docs.length)}`;
  if (href.startsWith(homepage)) return `/${href.slice(homepage.length)}`;
  if (/^[a-z]+:|^[#/]/.test(href)) return href;
  const path = posix.join("docs", posix.dirname(page), href);
  return path.startsWith("docs/") ? href : `${repositoryUrl}/blob/main/${path}`;
}

/** @typedef {{ homepage: string, repositoryUrl: string }} Addresses */
