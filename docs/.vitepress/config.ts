/** The configuration of the site: addresses, search, sidebar, links and the files that are written after the build. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitepress";
import { accessibleTheme } from "./accessible-theme.js";
import { writeLlmsFiles } from "./llms.js";
import { rewriteLinks, slugify } from "./markdown.js";
import { makeSidebar } from "./pages.js";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** The addresses are only in package.json. */
const { homepage, repository, version, description } = JSON.parse(readFileSync(at("../../package.json"), "utf8"));
const repositoryUrl: string = repository.url.replace(/^git\+|\.git$/g, "");
const base = new URL(homepage).pathname;

/** Scripts open groups of the sidebar and tabs. Without them all are open. */
const WITHOUT_SCRIPTS = `
.VPSidebarItem.collapsed > .items, .vp-code-group .blocks > div { display: block !important }
`;

export default defineConfig({
  base,
  lang: "en-GB",
  title: "sluice",
  description,
  cleanUrls: true,
  // The folder of the logo and the social card, copied to the root of the site.
  vite: {
    publicDir: "brand",
    plugins: [accessibleTheme()],
    // The explainer imports the source of the package.
    server: { fs: { allow: [at("../..")] } },
    // The search index is one file.
    build: { chunkSizeWarningLimit: 4000 },
    resolve: { alias: [{ find: /^sluice$/, replacement: at("../../src/entries/index.ts") }] },
  },
  srcExclude: ["README.md"],
  sitemap: { hostname: homepage },
  head: [
    ["link", { rel: "icon", type: "image/svg+xml", href: `${base}logo.svg` }],
    ["meta", { name: "theme-color", content: "#0b4f7d" }],
    ["meta", { property: "og:type", content: "website" }],
    ["meta", { property: "og:site_name", content: "sluice" }],
    ["meta", { property: "og:image", content: `${homepage}social-card.png` }],
    ["meta", { property: "og:image:alt", content: "sluice: rate limiting for TypeScript" }],
    ["meta", { name: "twitter:card", content: "summary_large_image" }],
    ["noscript", {}, `<style>${WITHOUT_SCRIPTS}</style>`],
  ],
  transformHead({ pageData }) {
    const path = pageData.relativePath.replace(/(^|\/)index\.md$/, "$1").replace(/\.md$/, "");
    return [
      ["link", { rel: "canonical", href: homepage + path }],
      ["meta", { property: "og:url", content: homepage + path }],
      ["meta", { property: "og:title", content: pageData.title || "sluice" }],
      ["meta", { property: "og:description", content: pageData.description }],
    ];
  },
  markdown: {
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
    anchor: { slugify },
    config: (md) => rewriteLinks(md, { homepage, repositoryUrl }),
  },
  buildEnd: ({ outDir }) => writeLlmsFiles(outDir, { homepage, description }),
  themeConfig: {
    logo: { src: "/logo.svg", alt: "", width: 24, height: 24 },
    nav: [
      { text: "Guides", link: "/guide/", activeMatch: "^/guide/" },
      { text: "Frameworks", link: "/middleware/", activeMatch: "^/middleware/" },
      { text: "Stores", link: "/stores/", activeMatch: "^/stores/" },
      { text: "API", link: "/reference/", activeMatch: "^/reference/" },
      {
        text: version,
        items: [{ text: "Changelog", link: `${repositoryUrl}/blob/main/CHANGELOG.md` }],
      },
    ],
    sidebar: makeSidebar(),
    outline: { level: [2, 3], label: "On this page" },
    editLink: { pattern: `${repositoryUrl}/edit/main/docs/:path`, text: "Edit this page on GitHub" },
    socialLinks: [{ icon: "github", link: repositoryUrl, ariaLabel: "sluice on GitHub" }],
    notFound: {
      title: "Page not found",
      quote: "There is no page at this address. Search for it, or start from the home page.",
      linkLabel: "Home page",
      linkText: "Home page",
    },
    search: {
      provider: "local",
      options: {
        // Decision records, types that can't be imported and lists of links are not what readers search for.
        _render(source, env, md) {
          const html = md.render(source, env);
          if (/^(?:decisions|reference\/internals)\/|^guide\/index/.test(env.relativePath)) return "";
          // Descriptions have the words that readers search for.
          return html.replace("</h1>", `</h1><p>${md.utils.escapeHtml(`${env.frontmatter?.description ?? ""}`)}</p>`);
        },
        miniSearch: {
          searchOptions: {
            combineWith: "AND",
            prefix: true,
            fuzzy: 0.1,
            boost: { title: 6, titles: 2, text: 1 },
            // Guides answer questions, the reference lists names, FAQ and glossary link to the guides, and migrations are found
            // by the name of a library. The title of a page says more than that of a section.
            boostDocument(id: string, _term: string, fields?: Record<string, unknown>) {
              const isPage = (fields?.titles as unknown[] | undefined)?.length === 0;
              const weight = id.includes("/reference/")
                ? 0.2
                : /\/(?:faq|glossary)(?:#|$)|\/migrating\//.test(id)
                  ? 0.5
                  : 1;
              return weight * (isPage ? 3 : 1);
            },
          },
        },
      },
    },
  },
});
