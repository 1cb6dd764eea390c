/**
 * Random rule files: each ends in issues whose places exist, or in rules whose `find` and `explain` agree; the published
 * schema agrees; none takes long.
 * `npm run test:stress` runs more of them.
 */

import { loadRules } from "sluice/rules";
import { expect, it } from "vitest";
import { scaled } from "../../scripts/scale.js";
import { parseRules } from "../../src/rules/parse-rules.ts";
import type { Issue } from "../../src/rules/rules-data.ts";
import { randomFrom } from "../../src/testing/random.ts";
import { cpuTimeOf } from "./cpu-time.ts";
import { expectAgreement, randomRequest } from "./find-and-explain.ts";
import { hostileFile, randomFile } from "./random-files.ts";
import { validate } from "./rules-schema.ts";

const FILES = scaled(3000);
/** Set by SLUICE_SEED. */
const SEED = Number(process.env.SLUICE_SEED ?? 20_261_117);
const MAX_MS = 100;
/** Requests that `find` and `explain` are compared on, per accepted file. */
const REQUESTS = 3;

/** The members of a JSON pointer. */
function partsOf(pointer: string): string[] {
  const parts = pointer.split("/").slice(1);
  return parts.map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** Whether a value has this member of its own. */
function has(value: unknown, key: string): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && Object.hasOwn(value, key);
}

/** Expects that the place of an issue exists, or at least its owner: a missing member has a place, too. */
function expectPlace(file: unknown, { path, pointer, message, received }: Issue): void {
  let value = file;
  let text = "";
  const parts = partsOf(pointer);
  for (const [i, part] of parts.entries()) {
    text += Array.isArray(value)
      ? `[${part}]`
      : /^[A-Za-z_$][\w$]*$/.test(part)
        ? `.${part}`
        : `[${JSON.stringify(part)}]`;
    const isLast = i === parts.length - 1;
    if (has(value, part)) value = value[part];
    else if (isLast && typeof value === "object" && value !== null) value = undefined;
    else throw new Error(`${pointer} does not exist: ${message}`);
  }
  if (path !== text.replace(/^\./, "")) throw new Error(`${path} is not ${text}`);
  if (message === "") throw new Error(`${path} has no message`);
  if (JSON.stringify(received)?.slice(0, 1000) !== JSON.stringify(value)?.slice(0, 1000)) {
    throw new Error(`${path} did not receive ${JSON.stringify(received)?.slice(0, 100)}`);
  }
}

/** Parses a file, and measures the CPU time of that. */
function timed(file: unknown): { result: ReturnType<typeof parseRules>; ms: number } {
  let result: ReturnType<typeof parseRules> | undefined;
  const ms = cpuTimeOf(() => {
    result = parseRules(file);
  }, MAX_MS);
  return { result: result as ReturnType<typeof parseRules>, ms };
}

it(`random files, seed ${SEED}`, () => {
  const random = randomFrom(SEED);
  let [accepted, slowest, policies] = [0, 0, 0];
  for (let i = 0; i < FILES; i++) {
    const file = randomFile(random);
    const { result, ms } = timed(file);
    slowest = Math.max(slowest, ms);
    const context = () => `seed ${SEED}, file ${i}: ${JSON.stringify(file)?.slice(0, 2000)}`;
    const isValid = validate(file);
    if (result.issues) {
      if (result.issues.length === 0 || result.issues.length > 100) throw new Error(`no issues: ${context()}`);
      for (const issue of result.issues) {
        try {
          expectPlace(file, issue);
        } catch (error) {
          throw new Error(`${error}; ${context()}`);
        }
      }
      // Whatever the schema rejects is rejected near there.
      const places = (validate.errors ?? []).map(({ instancePath }) => instancePath);
      const isNear = ({ pointer }: Issue) =>
        places.some((place) => place.startsWith(pointer) || pointer.startsWith(place));
      if (!isValid && !result.issues.some(isNear)) throw new Error(`${places}: ${context()}`);
    } else {
      accepted++;
      if (!isValid) throw new Error(`${JSON.stringify(validate.errors)}: ${context()}`);
      if (!/^[0-9a-f]{8}$/.test(result.rules.version)) throw new Error(context());
      if (JSON.stringify(result.rules.data) !== JSON.stringify(file)) throw new Error(`changed data: ${context()}`);
      const rules = loadRules(file, { facts: result.rules.facts });
      for (let n = 0; n < REQUESTS; n++) {
        const request = randomRequest(result.rules, random);
        try {
          policies += expectAgreement(rules, request);
        } catch (error) {
          throw new Error(`${error}; ${JSON.stringify(request)}, ${context()}`);
        }
      }
    }
    if (ms > MAX_MS) throw new Error(`${ms.toFixed(0)} ms: ${context()}`);
  }
  console.log(
    `${FILES} files, ${accepted} accepted, ${accepted * REQUESTS} requests with ${policies} policies explained, slowest ${slowest.toFixed(1)} ms, seed ${SEED}`,
  );
  // Both outcomes are common, so that both are tested.
  expect(accepted).toBeGreaterThan(FILES / 20);
  expect(accepted).toBeLessThan(FILES / 2);
}, 600_000);

it(`files that only code can create, seed ${SEED}`, () => {
  const random = randomFrom(SEED + 1);
  for (let i = 0; i < FILES / 3; i++) {
    const { result, ms } = timed(hostileFile(random));
    expect(result.issues === undefined || result.issues.length > 0, `seed ${SEED}, file ${i}`).toBe(true);
    for (const { path, pointer, message } of result.issues ?? []) {
      expect([typeof path, typeof pointer, message.length > 0]).toEqual(["string", "string", true]);
    }
    expect(ms, `seed ${SEED}, file ${i}`).toBeLessThan(MAX_MS);
  }
}, 600_000);
