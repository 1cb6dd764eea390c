/** Tests that the snippets of pages are parts of files that a folder compiles and runs. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type Kind, snippetsOfKind } from "../test/snippets.ts";

/** Every snippet of a kind must be in one of the files, character by character. */
export function sameSnippets(kind: Kind, folder: string): void {
  const files = readdirSync(folder).map((file) => readFileSync(join(folder, file), "utf8"));
  const snippets = snippetsOfKind(kind).map((snippet) => [`${snippet.page}:${snippet.line}`, snippet] as const);
  describe(`snippets for ${kind}`, () => {
    it("exist", () => expect(snippets.length).toBeGreaterThan(0));
    it.each(snippets)("%s is part of an app that is tested", (_, { lines }) => {
      const code = lines.join("\n").trim();
      expect(files.some((file) => file.includes(code)) ? code : "", "see the folder docs of this folder").toBe(code);
    });
  });
}
