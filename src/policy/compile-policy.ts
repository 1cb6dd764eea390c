/** Validates a policy and turns it into whole numbers. */

import { optionError, SluiceError, show } from "../base/errors.ts";
import { checkOptions, checkWhole } from "../base/options.ts";
import {
  type Algorithm,
  type CompiledPolicy,
  type EncodedPolicy,
  fingerprintOf,
  type PolicyNumbers,
} from "../core/compiled-policy.ts";
import { POLICY_HINTS, type Policy, type ResolvedPolicy } from "../core/policy.ts";
import { defaultMaxHolds, MAX_HOLDS } from "./max-holds.ts";
import { policyFromText } from "./policy-text.ts";
import { type Algorithms, rates } from "./rates.ts";
import type { PolicyText } from "./text-type.ts";
import { writtenText } from "./written-text.ts";

/** Validates a policy, given as an object or as text. Throws an error that names the option. */
export function compilePolicy(given: Policy | PolicyText): CompiledPolicy {
  return compileWith(given, rates);
}

/** The same for a policy that may name one of these algorithms, such as one as data. A policy may bring any other one. */
export function compileWith(given: Policy | PolicyText | EncodedPolicy, known: Algorithms): CompiledPolicy {
  const policy = (typeof given === "string" ? policyFromText("policy", given, known) : given) as Policy;
  const algorithm = algorithmOf(policy, known);
  const { form, queues, holdsOnly } = algorithm;
  const kind = holdsOnly ? "concurrency" : algorithm.block ? "penalty" : "rate";
  const hasHolds = !queues && kind !== "penalty";
  const options = ["algorithm", "name", "prefix", "share", "unit", ...form.options, ...(hasHolds ? ["maxHolds"] : [])];
  checkOptions(`a ${algorithm.name} policy`, policy, options, POLICY_HINTS);
  const { prefix, share = false, unit } = policy;
  checkLabel("name", policy.name);
  checkLabel("prefix", prefix);
  checkLabel("unit", unit);
  checkShare(share, policy.name);

  const numbers = form.compile(policy);
  const { limit, windowMs, unitsPerToken, unitsPerMs, block } = numbers;
  const defaultHolds = defaultMaxHolds(limit, holdsOnly);
  const maxHolds = checkWhole("maxHolds", policy.maxHolds ?? defaultHolds, 1, MAX_HOLDS);
  const canonical = policy.name ?? form.text(numbers);
  const name = policy.name ?? nameFrom(writtenText(policy)) ?? canonical;
  const refills = unitsPerMs > 0;
  const resolved: ResolvedPolicy = Object.freeze({
    algorithm: algorithm.name,
    name,
    ...(prefix === undefined ? {} : { prefix }),
    capacity: limit,
    tokensPerSecond: kind === "rate" ? rateOf(numbers) : 0,
    limit,
    windowMs,
    ...(unit === undefined ? {} : { unit }),
  });
  // Short, because stores keep it with every key. Only the id of a named policy contains a colon.
  const isOwn = canonical === form.text(numbers);
  const ownOrNamed = isOwn ? form.shortText(numbers) : `${form.timeText(numbers)}:${canonical}`;
  const id = form.word[0] + (prefix === undefined ? ownOrNamed : `.${prefix.length}:${prefix}${ownOrNamed}`);
  return Object.freeze({
    algorithm,
    kind,
    name,
    // The length marks where the name ends, so that no name and prefix run together. Texts of the same numbers share it.
    qualifiedName: `${canonical.length}:${canonical}${prefix ?? ""}`,
    id,
    fingerprint: `${fingerprintOf(id, numbers)}${maxHolds === defaultHolds ? "" : ` ${maxHolds} holds`}`,
    limit,
    windowMs,
    unitsPerToken,
    capacityUnits: limit * unitsPerToken,
    refills,
    unitsPerMs,
    maxHolds,
    block,
    share,
    resolved,
  });
}

function rateOf({ limit, windowMs, unitsPerToken, unitsPerMs }: PolicyNumbers): number {
  return unitsPerMs > 0 ? (unitsPerMs * 1000) / unitsPerToken : (limit * 1000) / windowMs;
}

function algorithmOf(policy: Policy, known: Algorithms): Algorithm {
  if (typeof policy !== "object" || policy === null) {
    const expected = 'a policy, such as "5/s", tokenBucket("5/s") or { capacity: 10, tokensPerSecond: 5 }';
    throw optionError("invalid-option", "policy", expected, policy);
  }
  const { algorithm = "token-bucket" } = policy;
  if (policy.algorithm === undefined && policy.limit !== undefined) {
    throw new SluiceError(
      "invalid-option",
      "A policy with limit and windowMs needs an algorithm: fixed-window, sliding-window or sliding-log.",
      { option: "algorithm", expected: "fixed-window, sliding-window or sliding-log beside limit and windowMs" },
    );
  }
  if (isAlgorithm(algorithm)) return algorithm;
  if (typeof algorithm === "string" && Object.hasOwn(known, algorithm)) return known[algorithm] as Algorithm;
  const call = callFor(algorithm);
  if (call === undefined) {
    throw optionError("invalid-option", "algorithm", `one of ${Object.keys(known).join(", ")}`, algorithm);
  }
  const message = `algorithm ${show(algorithm)} can't be named in code. Write ${call}, which brings its algorithm.`;
  throw new SluiceError("invalid-option", message, { option: "algorithm", expected: call, received: algorithm });
}

/** The call that creates the policies of an algorithm that code can't name. */
function callFor(algorithm: unknown): string | undefined {
  if (algorithm === "concurrency") return "concurrency(limit, options)";
  return algorithm === "penalty" ? "penalty(options)" : undefined;
}

/** Whether a policy brings its algorithm. */
function isAlgorithm(algorithm: unknown): algorithm is Algorithm {
  return typeof (algorithm as Algorithm | null)?.form?.compile === "function";
}

/** Names and units appear in headers, names and prefixes in stored keys, so they are short and printable. */
const LABEL = /^[ -~]{1,64}$/;

/** A text may be longer than a name. */
function nameFrom(text: string | undefined): string | undefined {
  return text !== undefined && LABEL.test(text) ? text : undefined;
}

function checkLabel(option: "name" | "prefix" | "unit", value: unknown): void {
  if (value === undefined || (typeof value === "string" && LABEL.test(value))) return;
  throw optionError("invalid-option", option, "1 to 64 printable ASCII characters", value);
}

function checkShare(share: unknown, name: string | undefined): void {
  if (typeof share !== "boolean") throw optionError("invalid-option", "share", "true or false", share);
  if (!share || name !== undefined) return;
  const message = "share: true needs a name, which the plans have in common.";
  throw new SluiceError("invalid-option", message, { option: "share", expected: "a name beside it", received: share });
}
