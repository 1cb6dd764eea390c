/** Tests the messages for mistakes in limits and holds. */
import { describe, expect, it } from "vitest";
import { type AnyFile, linesAfter } from "./rule-files.ts";

type Row = readonly [what: string, change: (file: AnyFile) => void, line: string];

const rule = (index: number, members: object) => (file: AnyFile) => void Object.assign(file.rules[index], members);

describe("limits", () => {
  const limit = (text: unknown) => rule(3, { limits: { client: text } });
  it.each<Row>([
    [
      "a week",
      limit("100/week"),
      'rules[3].limits.client: "100/week" is not a limit; the longest unit is a day: write "100/7d" for a week or "100/30d" for a month',
    ],
    [
      "a fraction",
      limit("1.5/s"),
      'rules[3].limits.client: "1.5/s" is not a limit; the count must be a whole number: write "3/2s"',
    ],
    [
      "a count of 0",
      limit("0/s"),
      'rules[3].limits.client: "0/s" is not a limit; write a rate with a count of at least 1',
    ],
    [
      "a capacity below the rate",
      limit("5000/s burst 1"),
      'rules[3].limits.client: "5000/s burst 1" is not a limit; its capacity must be a number from 5 to 9007199254740991 at this rate',
    ],
    [
      "a log that is too long",
      limit("20000/h log of tokens"),
      'rules[3].limits.client: "20000/h log of tokens" is not a limit; its count must be at most 10000',
    ],
    [
      "a lease that is too long",
      limit("5 concurrent lease 2d"),
      'rules[3].limits.client: "5 concurrent lease 2d" is not a limit; its lease must be at most 86400000',
    ],
    [
      "an unlimited fact",
      limit("unlimited of tokens"),
      'rules[3].limits.client: "unlimited" counts nothing; remove "of tokens"',
    ],
    [
      "an identity that is counted",
      limit("10/s of client"),
      'rules[3].limits.client: "client" is an identity, not a number that can be counted',
    ],
    [
      "a fact with a space",
      limit("10/s of big tokens"),
      'rules[3].limits.client: "big tokens" after "of" is not the name of a fact, which is like "tokens"',
    ],
    ["a number", limit(5), 'rules[3].limits.client: must be a limit such as "10/s burst 50", but received 5'],
    ["an empty list", limit([]), "rules[3].limits.client: needs at least one limit"],
    [
      "a list in a list",
      limit(["1/s", ["2/s"]]),
      'rules[3].limits.client[1]: must be a limit such as "10/s burst 50", but received an array',
    ],
    [
      "an unknown plan",
      limit({ free: "1/s", pro: "1/s", enterprise: "1/s", prp: "1/s" }),
      'rules[3].limits.client.prp: unknown plan "prp"; the plans are "free", "pro" and "enterprise"',
    ],
    [
      "limits by plan without plans",
      (file) => {
        for (const member of ["plans", "defaultPlan", "budgets"]) delete file[member];
        file.rules[3].limits = { client: { free: "1/s" } };
      },
      "rules[3].limits.client: a limit for each plan needs plans and defaultPlan; add them, or write one limit",
    ],
    [
      "an identity with a space",
      rule(3, { limits: { "my tenant": "1/s", ip: "1/s" } }),
      'rules[3].limits["my tenant"]: "my tenant" is not an identity; use ip, network, user, apiKey, client, global, the name of a fact, or several joined by "+"',
    ],
    [
      "an identity that is joined with itself",
      rule(3, { limits: { "ip+ip": "1/s", ip: "1/s" } }),
      'rules[3].limits["ip+ip"]: "ip+ip" names one identity twice',
    ],
    [
      "global in a joined identity",
      rule(3, { limits: { "global+user": "1/s", ip: "1/s" } }),
      'rules[3].limits["global+user"]: "global+user" joins "global", which is one key for all; remove it',
    ],
    [
      "limits as a list",
      rule(3, { limits: ["1/s"] }),
      'rules[3].limits: must be an object such as { "client": "10/s burst 50" }, but received an array',
    ],
    [
      "a name that is too long",
      (file) =>
        Object.assign(file.rules[3], { name: "n".repeat(40), limits: { "ip+accountNumber": "1/s", ip: "1/s" } }),
      `rules[3].limits["ip+accountNumber"]: the name "${"n".repeat(40)}..." is too long: with its plan or "@override" it has 66 characters, and at most 64 are allowed`,
    ],
  ])("%s", (_, change, line) => expect(linesAfter(change)).toEqual([line]));
});

describe("holds", () => {
  const held = (text: string, hold: unknown = "1m") => rule(3, { limits: { client: "10/s", user: text }, hold });
  const duration = 'rules[3].hold: must be a duration from 1 ms to 1 d, such as "5m", but received ';
  it.each<Row>([
    ["a duration of 0", held("10/s of tokens", 0), `${duration}0`],
    ["a duration of 2 days", held("10/s of tokens", "2d"), `${duration}"2d"`],
    ["a text", held("10/s of tokens", "soon"), `${duration}"soon"`],
    ["null", held("10/s of tokens", null), `${duration}null`],
    [
      "no counted fact",
      held("10/s"),
      'rules[3].hold: has nothing to hold; count a fact, as in "100000/m of tokens", or remove it',
    ],
    [
      "a leaky bucket",
      held("10/s queue 20 of tokens"),
      'rules[3].hold: can\'t hold tokens of "10/s queue 20 of tokens": a queue does not support holds; use "burst" or another algorithm',
    ],
    [
      "a long log",
      held("1001/m log of tokens"),
      'rules[3].hold: can\'t hold tokens of "1001/m log of tokens": holds on a log need a count of at most 1000; use "sliding"',
    ],
  ])("%s", (_, change, line) => expect(linesAfter(change)).toEqual([line]));
});
