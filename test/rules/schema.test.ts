/** Tests the published JSON Schema of rules: it accepts what is valid, and describes every member to editors. */
import { describe, expect, it } from "vitest";
import { checkRules } from "../../src/rules/parse-rules.ts";
import { presets } from "../../src/rules/presets.ts";
import { validFile } from "./rule-files.ts";
import { schema, validate } from "./rules-schema.ts";
import { saasRules } from "./saas-rules.ts";

const rule = (members: object) => ({ rules: [{ name: "r", match: "/r", ...members }], fallback: "unlimited" });

describe("the schema", () => {
  it("accepts the example, as TypeScript and as JSON", () => {
    expect(validate(saasRules), JSON.stringify(validate.errors)).toBe(true);
    const file = { $schema: "./node_modules/sluice/rules.schema.json", version: 1, caseSensitive: true, ...saasRules };
    expect(validate(JSON.parse(JSON.stringify(file))), JSON.stringify(validate.errors)).toBe(true);
    expect(checkRules(JSON.parse(JSON.stringify(file)))).toEqual([]);
  });

  it.each(Object.entries(presets))("accepts the preset %s, by name and as data", (preset, data) => {
    for (const file of [rule({ preset }), rule(data)]) {
      expect(validate(file), JSON.stringify(validate.errors)).toBe(true);
      expect(checkRules(file)).toEqual([]);
    }
  });

  it("lists the presets", () => expect(schema.$defs.preset.enum).toEqual(Object.keys(presets)));

  it.each<[string, object, string]>([
    ["a misspelt member", rule({ limit: {} }), "/rules/0"],
    ["a text that is not a limit", rule({ limits: { ip: "60 per minute" } }), "/rules/0/limits/ip"],
    ["a fraction as weight", rule({ limits: { ip: "1/s" }, weight: 1.5 }), "/rules/0/weight"],
    ["an unknown preset", rule({ preset: "logn" }), "/rules/0/preset"],
    ["limits of an exemption", rule({ unlimited: true, limits: { ip: "1/s" } }), "/rules/0/limits"],
    ["a pattern without a slash", rule({ preset: "search", match: "login" }), "/rules/0/match"],
    ["plans without a default", { ...rule({ preset: "search" }), plans: ["free"] }, ""],
    ["no fallback", { rules: [] }, ""],
    ["two identities in a budget", { ...validFile(), budgets: { b: { ip: "1/s", user: "1/s" } } }, "/budgets/b"],
  ])("rejects %s, as the loader does", (_, file, place) => {
    expect(validate(file)).toBe(false);
    expect(validate.errors?.map(({ instancePath }) => instancePath)).toContain(place);
    expect(checkRules(file).some(({ pointer }) => pointer.startsWith(place))).toBe(true);
  });

  it("describes every member, and allows no others", () => {
    const { rule, fallback, settings } = schema.$defs;
    for (const object of [schema, schema.properties.defaults, rule, fallback]) {
      expect(object.additionalProperties).toBe(false);
    }
    const resolve = (one: { $ref?: string; description?: string }): string | undefined =>
      one.description ??
      (one.$ref &&
        resolve(
          one.$ref
            .slice(2)
            .split("/")
            .reduce((found, key) => found[key], schema),
        ));
    const members = [schema.properties, rule.properties, fallback.properties, settings.properties].flatMap(
      Object.entries,
    );
    for (const [name, member] of members) expect(resolve(member), name).toMatch(/^.{20,}\.$/);
  });
});
