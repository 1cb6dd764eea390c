/** Parses the text of a limit: a policy, and the fact that it counts. */

import { SluiceError, show } from "../base/errors.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import { algorithms } from "../holds/all-algorithms.ts";
import { BUILT_IN_IDENTITIES, FACT } from "../http/identity/identities.ts";
import { compilePolicy } from "../policy/compile-policy.ts";
import { policyFromText } from "../policy/policy-text.ts";
import type { LimitSpec } from "./parsed-rules.ts";
import type { LimitText } from "./rules-data.ts";

/** A parsed text, with the numbers of its policy. */
export interface CompiledSpec extends LimitSpec {
  /** `undefined`: unlimited. */
  readonly compiled: CompiledPolicy | undefined;
}

const FORMS = 'write it like "10/s burst 50", "1000/d fixed", "5/15m log" or "unlimited"';

/** Longer than every limit. */
const MAX_TEXT_CHARS = 200;

/** What the options of a policy are in its text. */
const PARTS: Readonly<Record<string, string>> = {
  tokensPerSecond: "rate",
  leaksPerSecond: "rate",
  limit: "count",
  windowMs: "window",
  leaseMs: "lease",
};

/** Parses each text once: 100 000 overrides have a few different ones. */
export class LimitTexts {
  private readonly results = new Map<string, CompiledSpec | string>();

  /** Returns the parsed text, or what is wrong with it. */
  parse(text: string): CompiledSpec | string {
    let result = this.results.get(text);
    if (result === undefined) this.results.set(text, (result = parseText(text)));
    return result;
  }
}

function parseText(text: string): CompiledSpec | string {
  const [, policyText = text, of] = /^(.*?) of (.*)$/.exec(text) ?? [];
  if (policyText === "unlimited") {
    if (of !== undefined) return `"unlimited" counts nothing; remove ${show(`of ${of}`)}`;
    return Object.freeze({ text: text as LimitText, policy: undefined, of, compiled: undefined });
  }
  if (text.length > MAX_TEXT_CHARS) return `${show(text)} is not a limit; ${FORMS}`;
  let spec: CompiledSpec;
  try {
    const policy = policyFromText("text", policyText, algorithms);
    spec = Object.freeze({
      text: text as LimitText,
      policy: Object.freeze(policy),
      of,
      compiled: compilePolicy(policy),
    });
  } catch (error) {
    return `${show(text)} is not a limit; ${adviceFor(error)}`;
  }
  if (of === undefined) return spec;
  if (spec.compiled?.kind === "concurrency") {
    return `a concurrency limit counts requests in flight; remove ${show(`of ${of}`)}`;
  }
  if (BUILT_IN_IDENTITIES.includes(of)) return `${show(of)} is an identity, not a number that can be counted`;
  return FACT.test(of) ? spec : `${show(of)} after "of" is not the name of a fact, which is like "tokens"`;
}

/** What to write instead, from the error of the policy's parser. */
function adviceFor(error: unknown): string {
  if (!(error instanceof SluiceError)) throw error;
  const { option, expected } = error;
  if (option !== "text") return `its ${PARTS[option] ?? option} must be ${expected}`;
  // "The longest unit is a day: write ..." or "The count must be a whole number: write ..."
  if (expected.startsWith("The ")) return `t${expected.slice(1, -1)}`;
  return expected.startsWith("a rate with") || expected.startsWith("a rate per") ? `write ${expected}` : FORMS;
}
