/** Tests what package.json promises: one address, and peer ranges that end at the last major version that is tested. */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const read = (path: string) => readFileSync(join(root, path), "utf8");
const manifest = JSON.parse(read("package.json"));

describe("the address", () => {
  const [, owner, name] = /^git\+https:\/\/github\.com\/([^/]+)\/([^/]+)\.git$/.exec(manifest.repository.url) ?? [];

  it("is the same in repository, homepage and bugs", () => {
    expect(manifest.homepage).toBe(`https://${owner}.github.io/${name}/`);
    expect(manifest.bugs.url).toBe(`https://github.com/${owner}/${name}/issues`);
  });

  // A source archive has no list of files to search.
  it.skipIf(!existsSync(join(root, ".git")))(
    "is in no file but those that quote an error or describe a release",
    () => {
      const tracked = execFileSync("git", ["grep", "-lI", "-e", owner as string], { cwd: root, encoding: "utf8" });
      const quoting = /^docs\/.*\.(?:md|yml)$|^CHANGELOG\.md$|^README\.md$|^test\/|^src\/base\/errors\.ts$/;
      const generated = ["package.json", "jsr.json", "CONTRIBUTING.md"];
      const files = tracked.trim().split("\n");
      expect(files.filter((file) => !quoting.test(file) && !generated.includes(file))).toEqual([]);
      for (const file of files.filter((file) => quoting.test(file) && !file.startsWith("test/"))) {
        for (const [address] of read(file).matchAll(new RegExp(`https?://[^\\s"')]*${owner}[^\\s"')]*`, "g"))) {
          // npm shows images only by the address of the file itself.
          const images = `https://raw.githubusercontent.com/${owner}/${name}/`;
          const known = [manifest.homepage, `https://github.com/${owner}/${name}`, images];
          const isKnown = known.some((one) => address.startsWith(one));
          expect(isKnown, `${file}: ${address}`).toBe(true);
        }
      }
    },
  );
});

describe("peer ranges", () => {
  /** The versions that the tests install, from "redis4": "npm:redis@4.7.1" or "redis": "^6.3.1". */
  const tested = new Map<string, number[]>();
  const folders = readdirSync(join(root, "integration")).map((folder) => `integration/${folder}/package.json`);
  for (const file of ["package.json", ...folders].filter((file) => existsSync(join(root, file)))) {
    const { dependencies, devDependencies } = JSON.parse(read(file));
    for (const [key, value] of Object.entries<string>({ ...dependencies, ...devDependencies })) {
      const [, alias, version = ""] = /^(?:npm:(.+)@)?[\^~]?(\d+)\./.exec(value) ?? [];
      const name = alias ?? key;
      tested.set(name, [...(tested.get(name) ?? []), Number(version)]);
    }
  }

  it.each(Object.entries<string>(manifest.peerDependencies))(
    "%s %s ends after the last tested major",
    (name, range) => {
      const [, last] = /^>=\d+\.\d+\.\d+ <(\d+)$/.exec(range) ?? [];
      expect(Number(last), range).toBe(Math.max(...(tested.get(name) ?? [])) + 1);
      expect(manifest.peerDependenciesMeta[name]).toEqual({ optional: true });
    },
  );
});
