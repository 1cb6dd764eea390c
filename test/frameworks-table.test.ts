/** The table of frameworks in docs/middleware/index.md: every middleware has a row, and every row is true of its code. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { subpaths } from "../scripts/subpaths.js";
import { ROOT, read } from "./snippets.ts";

// h3 is installed in integration/ only.
vi.mock("h3", () => ({ toResponse: (value: unknown) => value }));

const PAGE = "docs/middleware/index.md";
const [, section = ""] = read(PAGE).split("\n## Runtimes, addresses and stores\n");
const rows = (section.split("\n## ")[0] ?? "")
  .split("\n")
  .filter((line) => line.startsWith("| `sluice/"))
  .map((line) => line.split("|").map((cell) => cell.trim()))
  .map(([, name = "", , address = "", identity = "", late = "", , folders = ""]) => ({
    name: name.replaceAll("`", ""),
    address,
    identity,
    late,
    folders: [...folders.matchAll(/`([\w-]+)`/g)].map(([, folder]) => folder as string),
  }));

/** The subpaths of frameworks: each has a file in src/middleware. */
const middleware = subpaths
  .filter(({ entry }) => existsSync(join(ROOT, `src/middleware/${entry}.ts`)))
  .map(({ name }) => name);

/** NestJS and tRPC are installed in integration/ only, whose tests cover their rows. */
const loadable = rows.filter(({ name }) => name !== "sluice/nestjs" && name !== "sluice/trpc");

type RateLimit = (options: object) => unknown;
const rateLimitOf = async (name: string): Promise<RateLimit> => {
  const module = (await import(join(ROOT, `src/entries/${name.slice("sluice/".length)}.ts`))) as {
    rateLimit: RateLimit;
  };
  return module.rateLimit;
};

/** The source files of a folder, without those of its packages and builds. */
function sourcesIn(folder: string): string[] {
  return readdirSync(join(ROOT, "integration", folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return /^(?:node_modules|build|dist|\..*)$/.test(entry.name) ? [] : sourcesIn(path);
    return /\.[jt]sx?$/.test(entry.name) ? [join("integration", path)] : [];
  });
}

describe(`the table in ${PAGE}`, () => {
  it("has a row for every middleware and no other", () => {
    expect(middleware.length).toBeGreaterThan(10);
    expect(rows.map(({ name }) => name).sort()).toEqual([...middleware].sort());
  });

  it.each(rows)("$name is in the list of servers, with a page", ({ name }) => {
    const [list = ""] = read(PAGE).split("\n## ");
    const row = list.split("\n").find((line) => line.includes(`| \`${name}\` |`));
    expect(row, `the list of servers has no ${name}`).toMatch(/^\| \[.*?\]\([\w-]+\.md\)/);
  });

  it.each(rows)("$name names folders whose tests use it", ({ name, folders }) => {
    expect(folders.length).toBeGreaterThan(0);
    for (const folder of folders) {
      expect(readdirSync(join(ROOT, "integration", folder)).filter((file) => file.endsWith(".test.ts"))).not.toEqual(
        [],
      );
      const isUsed = sourcesIn(folder).some((file) => read(file).includes(`from "${name}"`));
      expect(isUsed, `integration/${folder} does not import ${name}`).toBe(true);
    }
  });

  it.each(loadable)(
    "$name requires identity or key as the table says: $identity",
    async ({ name, address, identity }) => {
      const rateLimit = await rateLimitOf(name);
      const create = () => rateLimit({ policy: "1/m" });
      if (identity === "required") {
        expect(address).toBe("none");
        expect(create).toThrow("exposes no socket addresses");
        return;
      }
      expect(create).not.toThrow();
      vi.stubGlobal("EdgeRuntime", "edge-runtime");
      try {
        if (identity === "required without a socket") {
          expect(create).toThrow("exposes no socket addresses");
        } else {
          expect(identity).toBe("optional");
          expect(create).not.toThrow();
        }
      } finally {
        vi.unstubAllGlobals();
      }
    },
  );

  it.each(loadable)("$name can refund and hold as the table says: $late", async ({ name, late }) => {
    const rateLimit = await rateLimitOf(name);
    const create = () => rateLimit({ policy: "1/m", identity: "vercel", refundIf: "failed" });
    if (late === "yes") expect(create).not.toThrow();
    else expect(create).toThrow("refundIf");
  });
});
