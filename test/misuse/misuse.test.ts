/** Wrong uses, one by one: each must end with a sentence that the user can act on. Needs `npm run build`. */
import { readFileSync } from "node:fs";
import { SluiceError } from "sluice";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { ERRORS_PAGE } from "../../src/base/errors.ts";
import { collectWarnings } from "../frameworks/servers.ts";
import { createProject, diagnosticsOf, removeProject } from "./project.ts";
import type { Case, Row } from "./row.ts";
import { callRows } from "./rows-calls.ts";
import { httpRows } from "./rows-http.ts";
import { middlewareRows } from "./rows-middleware.ts";
import { mountRows } from "./rows-mounts.ts";
import { packageRows } from "./rows-package.ts";
import { policyRows } from "./rows-policies.ts";
import { ruleRows } from "./rows-rules.ts";
import { serverRows } from "./rows-servers.ts";
import { storeRows } from "./rows-stores.ts";

const rows: readonly Row[] = [
  ...policyRows,
  ...middlewareRows,
  ...callRows,
  ...serverRows,
  ...storeRows,
  ...httpRows,
  ...packageRows,
  ...ruleRows,
  ...mountRows,
].sort((a, b) => a.number - b.number);
const cases = rows.flatMap(({ number, cases }) =>
  cases.map((one, i) => ({ ...one, number, file: `row-${number}-${i}.ts` })),
);
const typeCases = cases.filter(({ diagnostic }) => diagnostic !== undefined);
const runCases = cases.filter(({ run }) => run !== undefined);

/** The row of a `key` that throws. */
const OWN_ERROR = 33;
/** Fails a run that hangs. The slowest one starts a process. */
const DEADLINE_MS = 10_000;

let diagnostics: Map<string, string[]>;
beforeAll(async () => {
  createProject();
  diagnostics = await diagnosticsOf(Object.fromEntries(typeCases.map(({ file, code }) => [file, code])));
});
afterAll(removeProject);

/** A case's result or error, within the deadline. */
async function outcomeOf(run: () => unknown): Promise<{ value?: unknown; error?: unknown }> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const { clearTimeout } = globalThis;
  const hangs = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`It did not finish within ${DEADLINE_MS} ms.`)), DEADLINE_MS);
  });
  try {
    return { value: await Promise.race([run(), hangs]) };
  } catch (error) {
    return { error };
  } finally {
    clearTimeout(timer);
  }
}

function expectMessage(actual: string | undefined, expected: string | RegExp): void {
  if (typeof expected === "string") expect(actual).toBe(expected);
  else expect(actual).toMatch(expected);
}

describe("the table", () => {
  it("has numbered rows, each with a case or the name of the test that covers it", () => {
    expect(rows.map(({ number }) => number)).toEqual(Array.from({ length: 89 }, (_, i) => i + 1));
    for (const { number, cases, coveredBy } of rows) expect(cases.length > 0, `row ${number}`).toBe(!coveredBy);
  });

  it("has no grade below B without a reason", () => {
    const poor = rows.filter(({ grade, reason }) => grade > "B" && !reason);
    expect(poor.map(({ number }) => number)).toEqual([]);
  });

  it("says of every case where it surfaces", () => {
    for (const { code, run, throws, warns, returns, diagnostic } of cases) {
      const ways = [throws, warns ?? returns, diagnostic].filter((way) => way !== undefined);
      expect([code, ways.length, run === undefined]).toEqual([code, 1, diagnostic !== undefined]);
    }
  });
});

const headings = new Set(
  [...readFileSync(new URL("../../docs/errors.md", import.meta.url), "utf8").matchAll(/^## (\S+)$/gm)].map(
    ([, id]) => id,
  ),
);

/** Expects sentences, then the link to a section of docs/errors.md. */
function expectSentence(message: string): void {
  const [text, anchor] = message.split(` See ${ERRORS_PAGE}#`);
  expect(text).toMatch(/^["A-Za-z0-9].*[^.][.?]$/);
  expect(headings).toContain(anchor);
}

describe.each(rows.filter(({ cases }) => cases.length > 0))("row $number: $what", ({ number }) => {
  const own = <T extends { number: number }>(all: readonly T[]): T[] => all.filter((one) => one.number === number);

  it.each(own(runCases))("$code", async ({ run, throws, warns, returns }) => {
    const warnings = collectWarnings();
    onTestFinished(() => void vi.useRealTimers());
    const { value, error } = await outcomeOf(run as NonNullable<Case["run"]>);
    if (throws !== undefined) {
      expect(error).toBeInstanceOf(SluiceError);
      expectMessage((error as Error).message, throws);
      expectSentence((error as Error).message);
    } else {
      expect(error).toBeUndefined();
    }
    if (returns !== undefined) expect(value).toEqual(returns);
    const { error: reported } = (value ?? {}) as { error?: string };
    // Of a mistake inside of the user's own function, the message is the user's.
    if (reported !== undefined && number !== OWN_ERROR) expectSentence(reported);
    if (warns !== undefined) {
      expect(warnings).toHaveLength(1);
      expectMessage(warnings[0]?.text, warns);
      expectSentence(warnings[0]?.text ?? "");
    }
  });

  it.runIf(own(typeCases).length > 0).each(own(typeCases))("TypeScript: $code", ({ file, reportedIn, diagnostic }) => {
    const [first] = diagnostics.get(reportedIn ?? file) ?? [];
    if (diagnostic === null) expect(first).toBeUndefined();
    else expectMessage(first, diagnostic as string | RegExp);
  });
});
