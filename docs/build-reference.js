/**
 * Writes docs/reference/*.md with TypeDoc, from the doc comments of the source: one page per subpath, and the types that are not
 * exported but appear in signatures in docs/reference/internals/. Part of `npm run docs:build`.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { Application, OptionDefaults } from "typedoc";
import { aboutSubpath } from "../scripts/list-pages.js";
import { subpaths } from "../scripts/subpaths.js";
import { slugify } from "./.vitepress/markdown.js";
import { referencePage } from "./.vitepress/pages.js";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const generated = mkdtempSync(join(tmpdir(), "sluice-reference-"));

const app = await Application.bootstrapWithPlugins({
  plugin: ["typedoc-plugin-markdown", "typedoc-plugin-missing-exports"],
  entryPoints: subpaths.map(({ entry }) => at(`../src/entries/${entry}.ts`)),
  tsconfig: at("../tsconfig.json"),
  out: generated,
  readme: "none",
  // One file per module instead of one per export.
  router: "module",
  disableSources: true,
  hideBreadcrumbs: true,
  hidePageHeader: true,
  excludePrivate: true,
  excludeProtected: true,
  excludeExternals: true,
  groupOrder: ["Functions", "Classes", "Variables", "Interfaces", "Type Aliases", "References"],
  parametersFormat: "table",
  interfacePropertiesFormat: "table",
  typeDeclarationFormat: "table",
  // Vue would read tags and braces of a comment as a template.
  sanitizeComments: true,
  blockTags: [...OptionDefaults.blockTags, "@alias"],
  excludeTags: ["@alias"],
  logLevel: "Warn",
});
const project = await app.convert();
if (!project) throw new Error("TypeDoc can't read the source");
await app.generateOutputs(project);
if (app.logger.hasErrors() || app.logger.hasWarnings()) throw new Error("TypeDoc found problems in doc comments");

/** TypeDoc's files, with the page that each becomes. */
const pages = new Map(
  subpaths.flatMap(({ subpath, name, entry }) => {
    const page = `${referencePage(subpath)}.md`;
    const main = { page, title: name, about: aboutSubpath({ name, entry }) };
    const internals = {
      page: `internals/${page}`,
      title: `Internals of ${name}`,
      about: `Types that signatures of \`${name}\` mention and that can't be imported. They may change in any version.`,
    };
    return [
      [`${entry}.md`, main],
      [`${entry}/README.md`, main],
      [`${entry}/-internal-.md`, internals],
    ];
  }),
);

for (const file of readdirSync(at("reference"))) {
  if (file !== "index.md") rmSync(at(`reference/${file}`), { recursive: true });
}
const files = readdirSync(generated, { recursive: true }).filter(
  (file) => file.endsWith(".md") && file !== "README.md",
);
const texts = new Map(
  files.map((file) => [pageOf(file).page, convert(file, readFileSync(join(generated, file), "utf8"))]),
);
for (const [page, text] of texts) {
  const path = at(`reference/${page}`);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, correctAnchors(page, text));
}
rmSync(generated, { recursive: true });

function pageOf(file) {
  const page = pages.get(file);
  if (!page) throw new Error(`TypeDoc wrote an unexpected file: ${file}`);
  return page;
}

/** A file of TypeDoc as a page of the site: with frontmatter, another title, and links to the new names. */
function convert(file, text) {
  const { page, title, about } = pageOf(file);
  const internals = posix.join(posix.dirname(file), "-internal-.md");
  const body = text
    .replace(/^# .*\n/, "")
    .replace(/^## Modules\n\n- \[.*\n/m, "")
    .replace(/\]\(([^)\s#]+\.md)(#[^)\s]*)?\)/g, (_, target, anchor = "") => {
      const to = pageOf(posix.join(posix.dirname(file), target)).page;
      return `](${posix.relative(posix.dirname(page), to)}${anchor})`;
    })
    .replace(/^## References\n[\s\S]*/m, listReferences)
    .trim();
  const more =
    text.includes("## Modules\n") && pages.has(internals)
      ? `\n\nTypes that appear here and can't be imported: [internals](${pages.get(internals).page}).`
      : "";
  const description = JSON.stringify(`API reference of ${title}. ${about.replaceAll("`", "")}`);
  return `---
description: ${description}
pageClass: reference
editLink: false
outline: [2, 3]
---

# ${title}

${about}${more}

${body}
`;
}

/** TypeDoc has a heading for each name that another page describes. A list is shorter. */
function listReferences(section) {
  const links = [...section.matchAll(/^(?:Re-exports|Renames and re-exports) (\[.*\))$/gm)].map(
    ([, link]) => `- ${link}`,
  );
  return `## Described on other pages\n\n${links.join("\n")}\n`;
}

/** TypeDoc also counts names that it leaves out, so that a link may end in `-1` where there is only one heading of that name. */
function correctAnchors(page, text) {
  return text.replace(/\]\(([^)\s#]*)#([^)\s]+?)(-\d+)?\)/g, (link, target, name, count = "") => {
    const anchors = anchorsOf(texts.get(target === "" ? page : posix.join(posix.dirname(page), target)));
    if (anchors.includes(name + count)) return link;
    if (!anchors.includes(name)) throw new Error(`${page} links to ${target}#${name}${count}, which does not exist`);
    return `](${target}#${name})`;
  });
}

function anchorsOf(text) {
  const ids = [...text.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
  const seen = new Map();
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => {
    const slug = slugify(heading.replaceAll("\\", ""));
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    return count === 0 ? slug : `${slug}-${count}`;
  });
  return [...ids, ...headings];
}
