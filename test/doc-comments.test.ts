/** Every export, and every member of an exported interface or class, has a doc comment: the API reference is made of them. */
import { describe, expect, it } from "vitest";
import { entryFiles } from "../scripts/subpaths.js";
import { exportsOf, undocumentedOf } from "./doc-comments.ts";

describe("doc comments", () => {
  it.each(entryFiles)("of %s are complete", (file) => {
    expect(exportsOf(file).flatMap((one) => undocumentedOf(one.file, one.name))).toEqual([]);
  });

  const found = (name: string, source: string) => undocumentedOf("file.ts", name, source).map(({ name }) => name);

  it.each([
    ["a function", "run", "export function run(): void {\n}\n", ["run"]],
    ["a constant", "LIST", "export const LIST = [1];\n", ["LIST"]],
    ["a type", "Name", 'export type Name = "a" | "b";\n', ["Name"]],
    ["an interface", "Options", "export interface Options {\n  /** A. */\n  a: string;\n}\n", ["Options"]],
    ["a member", "Options", "/** O. */\nexport interface Options {\n  readonly a?: string;\n}\n", ["Options.a"]],
    [
      "a member after a documented one",
      "Options",
      "/** O. */\nexport interface Options {\n  /** A; */\n  a: { b: string };\n  run(b: string): void;\n}\n",
      ["Options.run"],
    ],
    [
      "a member of a parent that is not exported",
      "Options",
      "interface Common {\n  name: string;\n}\n/** O. */\nexport interface Options extends Common {\n  /** A. */\n  a: string;\n}\n",
      ["Options.name"],
    ],
    [
      "a method of a class",
      "Error",
      "/** E. */\nexport class Error {\n  private b = 1;\n  constructor() {\n    run();\n  }\n  get code() {\n    return 1;\n  }\n}\n",
      ["Error.code"],
    ],
  ])("are missed on %s", (_, name, source, expected) => {
    expect(found(name, source)).toEqual(expected);
  });

  it("of an overload apply to all of them", () => {
    const source = "/** R. */\nexport function run(a: string): void;\nexport function run(a: number): void;\n";
    expect(found("run", source)).toEqual([]);
  });
});
