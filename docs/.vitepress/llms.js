/** Writes llms.txt, the list of all pages for language models, and llms-full.txt, their text in one file. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { linkOf, listPages, readPage } from "./pages.js";
import { listedPages } from "./sidebar.js";

/**
 * @param {string} folder
 * @param {{ homepage: string, description: string }} site
 */
export function writeLlmsFiles(folder, { homepage, description }) {
  const head = `# sluice\n\n> ${description}\n\n`;
  const list = listPages((path) => homepage + linkOf(path), "##");
  writeFileSync(join(folder, "llms.txt"), `${head}The text of all pages: ${homepage}llms-full.txt\n\n${list}\n`);
  const texts = listedPages
    .map(readPage)
    .map(({ path, text }) => `<!-- ${homepage}${linkOf(path)} -->\n\n${plain(text)}`);
  writeFileSync(join(folder, "llms-full.txt"), `${head}${texts.join("\n\n")}\n`);
}

/** A page without its frontmatter and comments. */
function plain(/** @type {string} */ text) {
  return text
    .replace(/^---\n[\s\S]*?\n---\n/, "")
    .replace(/<!--[\s\S]*?-->\n?/g, "")
    .trim();
}
