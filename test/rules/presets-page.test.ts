/** docs/rules-presets.md against the presets: its table has the numbers and settings that are in force. */
import { readFileSync } from "node:fs";
import { presets } from "sluice/rules";
import { expect, test } from "vitest";

const page = readFileSync(new URL("../../docs/rules-presets.md", import.meta.url), "utf8");
/** The first three cells of each row. */
const rows = [...page.matchAll(/^\| (`[a-z-]+`) \| (.*?) \| (.*?) \| .+ \|$/gm)].map(([, ...cells]) => cells);

test("docs/rules-presets.md lists every preset with its limits and settings", () => {
  const expected = Object.entries(presets).map(([name, { limits = {}, ...others }]) => [
    `\`${name}\``,
    Object.entries(limits)
      .flatMap(([per, limit]) => [limit].flat().map((text) => `${per} \`${text}\``))
      .join(", "),
    Object.entries(others)
      .map(([member, value]) => `\`${member}: ${written(value)}\``)
      .join(", "),
  ]);
  expect(rows).toEqual(expected);
});

/** A value as it is written in TypeScript. */
function written(value: unknown): string {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return JSON.stringify(value);
  const members = Object.entries(value).map(([name, member]) => `${name}: ${written(member)}`);
  return `{ ${members.join(", ")} }`;
}
