/**
 * The pages of frameworks whose apps are built and run in integration/: each block is the file that is run there, and
 * each page says what the clients of its app get.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { resultsOf } from "../integration/docs-page.ts";
import { fileOf, ROOT, read, snippetsOfKind } from "./snippets.ts";

const snippets = snippetsOfKind("framework");

describe("pages of frameworks", () => {
  it("have blocks", () => expect(snippets.length).toBeGreaterThan(6));

  it.each(snippets.map((snippet) => [`${snippet.page}:${snippet.line}`, snippet] as const))(
    "%s is the file that is run",
    (_, snippet) => {
      const file = fileOf(snippet);
      expect(existsSync(join(ROOT, file)), file).toBe(true);
      expect(file.endsWith(`.${snippet.extension}`), file).toBe(true);
      // The comment that says what the file is for is not on the page.
      const code = read(file).replace(/^\/\*\* .* \*\/\n/m, "");
      expect(`${snippet.lines.join("\n").trim()}\n`).toBe(code);
    },
  );

  it.each([...new Set(snippets.map(({ page }) => page))])("%s says what clients get, and a test sends it", (page) => {
    expect(resultsOf(page).length).toBeGreaterThan(0);
    const [, folder] =
      /^integration\/([\w-]+)\//.exec(fileOf(snippets.find((one) => one.page === page) as never)) ?? [];
    expect(read(`integration/${folder}/docs.test.ts`)).toContain(`expectResults("${page}"`);
  });
});
