/** Runs the walk over holds on mutants of the Redis script, each with a known bug: it has to find every one of them. */
import { describe, expect, it } from "vitest";
import type { AlgorithmName } from "../../src/core/policy.ts";
import { withRedis } from "../servers/needs.ts";
import { manyHoldsScript, walk, walkScript } from "./holds-walk.ts";
import { redis } from "./own-redis.ts";
import { variant } from "./script-variants.js";

/** A bug: text of the script, what it is replaced by, and the algorithms whose walks are run until one fails. */
interface Mutant {
  readonly name: string;
  readonly changes: readonly (readonly [from: string, to: string])[];
  readonly algorithms?: readonly AlgorithmName[];
  /** Whether holds are treated as many. */
  readonly isMany?: boolean;
}

const MUTANTS: readonly Mutant[] = [
  {
    name: "the TTL is that of the bucket without its holds",
    changes: [
      [
        "max(1, policy.ttlMs, resetAfter(bucket))",
        "max(1, policy.ttlMs, usedOf(bucket) > 0 and bucket.algorithm.reset(policy, usedOf(bucket), bucket.a, bucket.b, bucket.c) or 0)",
      ],
    ],
  },
  {
    name: "a hold is added at the end of the list",
    changes: [["while at > bucket.first and bucket.ends[at - 1] > endsAt do at = at - 1 end", ""]],
  },
  {
    name: "the time stays that of the hold that was charged last",
    changes: [
      [
        "bucket.debt, bucket.held = rest, bucket.held + rest\nend\nnow = present",
        "bucket.debt, bucket.held = rest, bucket.held + rest\nend",
      ],
    ],
  },
  {
    name: "the fast path ignores the holds",
    changes: [
      [
        "full, part, writtenUnitsPerMs = parseInstant(raw)",
        "full, part, writtenUnitsPerMs = parseInstant(match(raw, '^[^|]+') or raw)",
      ],
    ],
    algorithms: ["token-bucket"],
  },
  {
    name: "the fast path takes a bucket with holds for a foreign value",
    changes: [["elseif type(raw) == 'string' and string.find(raw, '|', 1, true) then", "elseif false then"]],
    algorithms: ["token-bucket"],
  },
  {
    name: "the settlement of a missing hold is charged",
    changes: [
      ["if not remove(bucket, bucket.policy.hold.id) then return false end", "remove(bucket, bucket.policy.hold.id)"],
    ],
  },
  {
    name: "a clock that has stepped back is not seen",
    changes: [["local back = max(0, bucket.writtenAt - now)", "local back = 0"]],
  },
  {
    name: "violations are never recorded",
    changes: [["isViolation and not isOnlyLook", "false"]],
    algorithms: ["penalty"],
  },
  {
    name: "every block is as long as the first",
    changes: [
      [
        "write(durationsMs[strikesOf(policy, memoryMs)], memoryMs)",
        "write(durationsMs[strikesOf(policy, memoryMs)] > 0 and tonumber(match(policy.block, '([1-9]%d*)')) or 0, memoryMs)",
      ],
    ],
    algorithms: ["penalty"],
  },
  {
    name: "fewer holds fit into a bucket",
    changes: [["max = tonumber(maxHolds) }", "max = 2 }"]],
  },
  {
    name: "a take beside many holds does not charge those that have ended",
    changes: [["charge(bucket, amount, next)\nend\nbucket.at", "bucket.debt = 0\nend\nbucket.at"]],
    isMany: true,
  },
  {
    name: "a take beside many holds keeps those that have ended",
    changes: [["bucket.at = at", "bucket.at = string.find(raw, ' ', 1, true)"]],
    isMany: true,
  },
  {
    name: "the fast path ignores the sum of many holds",
    changes: [["local room = limit - cost - held\n", "local room = limit - cost\n"]],
    algorithms: ["token-bucket"],
    isMany: true,
  },
  {
    name: "the fast path ignores that one of many holds has ended",
    changes: [["writtenAt > now or endsAt <= now", "writtenAt > now"]],
    algorithms: ["token-bucket"],
    isMany: true,
  },
  {
    name: "a bucket that is not in use keeps its state",
    changes: [
      ["if usedOf(bucket) > 0 then return end", "do return end"],
      ["if usedOf(bucket) == 0 then", "if false then"],
    ],
  },
];
const ALGORITHMS: readonly AlgorithmName[] = ["token-bucket", "fixed-window", "sliding-window", "concurrency"];
const STEPS = 4000;
const SEEDS = [99, 100];

describe("the walk over holds", withRedis, () => {
  it.each(MUTANTS)("finds a mutant: $name", async ({ name, changes, isMany = false, algorithms = ALGORITHMS }) => {
    let { text } = isMany ? manyHoldsScript : walkScript;
    for (const [from, to] of changes) {
      expect(text, `${name}: ${from}`).toContain(from);
      text = text.replace(from, () => to);
    }
    const { sha } = variant(text);
    await redis.script("LOAD", text);
    const run = (keys: string[], args: string[]) => redis.evalsha(sha, keys.length, ...keys, ...args);
    const findings: string[] = [];
    for (const algorithm of algorithms) {
      for (const seed of SEEDS) {
        if (findings.length > 0) continue;
        const prefix = `${name} ${algorithm} ${seed}:`;
        await walk({ algorithm, steps: STEPS, seed, run, prefix, isMany }).catch((error) =>
          findings.push(String(error)),
        );
      }
    }
    expect(findings).toHaveLength(1);
  });

  it("is run on 15 mutants with distinct names", () => {
    expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(15);
  });
});
