/** Every test file runs in exactly one project, and CI runs every project. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { createVitest } from "vitest/node";
import { allTestFiles, projects, testFiles } from "../scripts/test-projects.js";

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), "utf8");

it("has every test file in exactly one project", () => {
  const files = Object.keys(projects).flatMap((name) => testFiles(name));
  expect(files.sort()).toEqual([...allTestFiles].sort());
});

it("gives Vitest the same files", async () => {
  const vitest = await createVitest("test", { watch: false });
  try {
    for (const project of vitest.projects) {
      const { testFiles: found } = await project.globTestFiles();
      const relative = found.map((file) => file.slice(vitest.config.root.length + 1));
      expect(relative.sort(), project.name).toEqual(testFiles(project.name).sort());
    }
    expect(vitest.projects.map(({ name }) => name).sort()).toEqual(Object.keys(projects).sort());
  } finally {
    await vitest.close();
  }
});

it("runs every project in CI", () => {
  const { scripts } = JSON.parse(read("package.json"));
  expect(scripts.test).toContain("node scripts/run-tests.js");
  expect(scripts["test:ci"]).toContain("node scripts/run-tests.js ci");
  for (const command of ["npm test", "npm run --silent test:ci"]) expect(read(".ci/run")).toContain(` ${command}\n`);
});
