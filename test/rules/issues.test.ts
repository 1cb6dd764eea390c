/** Tests the list of issues, and the error that it becomes. */
import { describe, expect, it } from "vitest";
import { SluiceError } from "../../src/base/errors.ts";
import { invalidRules } from "../../src/rules/issues.ts";
import { checkRules } from "../../src/rules/parse-rules.ts";
import { type AnyFile, linesAfter, validFile } from "./rule-files.ts";

const rule = (index: number, members: object) => (file: AnyFile) => void Object.assign(file.rules[index], members);

describe("the list of issues", () => {
  it("has all problems, with path, pointer and value", () => {
    const file = validFile();
    file.rules[3].weight = "5";
    file.rules[4].limits = { "a/b~c": "1/s", ip: "1/s" };
    expect(checkRules(file)).toEqual([
      {
        path: "rules[3].weight",
        pointer: "/rules/3/weight",
        message: 'must be a whole number from 1 to 2147483647, but received "5"',
        received: "5",
      },
      {
        path: 'rules[4].limits["a/b~c"]',
        pointer: "/rules/4/limits/a~1b~0c",
        message: expect.stringContaining("is not an identity"),
        received: "1/s",
      },
    ]);
  });

  it("has at most 100 problems", () => {
    const file = validFile();
    file.rules = Array.from({ length: 300 }, () => 5);
    expect(checkRules(file)).toHaveLength(100);
  });

  it("reports no consequences of a problem", () => {
    // The rule has no valid limit, and the override names it.
    const change = (file: AnyFile) => {
      file.budgets.api = { tenant: "fast" };
      file.rules[3] = { name: "r3", match: "/r3", limits: { tenant: "fast" }, budgets: ["api"], weight: 99 };
      file.overrides = { "tenant:a": { "r3.tenant": "1/s", api: "1/s" } };
    };
    expect(linesAfter(change)).toEqual([
      expect.stringMatching(/^budgets\.api\.tenant: "fast" is not a limit/),
      expect.stringMatching(/^rules\[3\]\.limits\.tenant: "fast" is not a limit/),
    ]);
  });

  it("reports limits by plan also if the plans are wrong", () => {
    const change = (file: AnyFile) => {
      file.plans.push("pro");
      file.rules[3].limits = { client: {}, ip: { free: "fast" } };
    };
    expect(linesAfter(change)).toEqual([
      'plans[3]: plan "pro" is listed twice',
      "rules[3].limits.client: needs a limit for each plan",
      expect.stringMatching(/^rules\[3\]\.limits\.ip\.free: "fast" is not a limit/),
    ]);
    const wrongDefault = (file: AnyFile) => {
      file.defaultPlan = "fre";
      file.rules[3].limits = { client: { free: "1/s", pro: "2/s" } };
    };
    expect(linesAfter(wrongDefault)).toEqual([
      expect.stringMatching(/^defaultPlan: unknown plan "fre"/),
      'rules[3].limits.client: missing a limit for plan "enterprise"',
    ]);
  });

  it("is empty for valid rules", () => expect(checkRules(validFile())).toEqual([]));
});

describe("invalidRules", () => {
  const errorAfter = (change: (file: AnyFile) => void) => {
    const file = validFile();
    change(file);
    return invalidRules(checkRules(file));
  };

  it("has one issue as its message", () => {
    const error = errorAfter(rule(3, { weight: 0 }));
    expect(error).toBeInstanceOf(SluiceError);
    expect(error).toMatchObject({ code: "invalid-rules", option: "rules[3].weight", received: 0, isCallerError: true });
    expect(error.message).toMatch(/^rules\[3\]\.weight: must be .*, but received 0\. See .*#invalid-rules$/);
    expect(error.issues).toHaveLength(1);
  });

  it("keeps a question mark", () => {
    expect(errorAfter(rule(3, { limit: {} })).message).toMatch(/did you mean "limits"\? See /);
  });

  it("has the first five of several issues, and how many more there are", () => {
    const error = errorAfter((file) => {
      for (const one of file.rules) one.weight = 0;
    });
    const lines = error.message.split("\n");
    expect(lines).toHaveLength(6);
    expect(lines[4]).toMatch(/^rules\[4\]\.weight: /);
    expect(lines[5]).toMatch(/^and 5 more\. See /);
    expect(error.issues).toHaveLength(10);
  });

  it("describes data that is not an object", () => {
    expect(invalidRules(checkRules(null)).message).toMatch(
      /^The data must be an object with rules and a fallback, but received null\. See /,
    );
  });
});
