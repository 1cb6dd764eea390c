/** Tests that jsr.json is fresh, and that each export and import of it exists. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { makeJsr } from "../scripts/make-jsr.js";
import { JSON_FILES } from "../scripts/subpaths.js";

const at = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const read = (path: string) => readFileSync(at(path), "utf8");
const manifest = JSON.parse(read("package.json"));
const jsr = JSON.parse(read("jsr.json"));

/** The range that starts at the version which a folder of integration/ installs. */
const inFolder = (folder: string, key: string): string => {
  const { dependencies } = JSON.parse(read(`integration/${folder}/package.json`)) as {
    dependencies: Record<string, string>;
  };
  return `^${dependencies[key]?.split("@").at(-1)}`;
};
const FROM_INTEGRATION = {
  "@netlify/edge-functions": inFolder("netlify", "@netlify/edge-functions"),
  "@sveltejs/kit": inFolder("sveltekit", "@sveltejs/kit"),
  "@nestjs/common": inFolder("nestjs", "@nestjs/common"),
  "@nestjs/core": inFolder("nestjs", "@nestjs/core"),
  "@trpc/server": inFolder("trpc", "@trpc/server"),
  h3: inFolder("h3", "h3"),
  koa: inFolder("koa", "koa"),
  "react-router": inFolder("react-router", "react-router"),
};

it("jsr.json is fresh: node scripts/make-jsr.js", () => {
  expect(read("jsr.json")).toBe(makeJsr());
});

it("names the organisation and the version of package.json", () => {
  expect(manifest.repository.url).toContain("/sluicejs/sluice.git");
  expect(jsr).toMatchObject({ name: "@sluicejs/sluice", version: manifest.version, license: manifest.license });
});

it("exports the source of every subpath of package.json", () => {
  const subpaths = Object.keys(manifest.exports).filter((path) => !JSON_FILES.includes(path));
  expect(Object.keys(jsr.exports)).toEqual(subpaths);
  for (const file of Object.values<string>(jsr.exports)) expect(existsSync(at(file)), file).toBe(true);
});

it("imports npm packages with the version that is tested", () => {
  for (const [name, target] of Object.entries(jsr.imports)) {
    const range = manifest.devDependencies[name] ?? FROM_INTEGRATION[name as keyof typeof FROM_INTEGRATION];
    expect(target).toBe(`npm:${name}@${range}`);
  }
  expect(Object.keys(jsr.imports)).toEqual(expect.arrayContaining(["ipaddr.js", ...Object.keys(FROM_INTEGRATION)]));
});
