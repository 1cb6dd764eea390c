/** Validates a policy and turns it into whole numbers. */
import { type CompiledPolicy, fingerprintOf, type PolicyNumbers } from "../core/compiled-policy.ts";
import { optionError, SluiceError } from "../core/errors.ts";
import { checkOptions } from "../core/options.ts";
import { type AlgorithmName, POLICY_HINTS, type Policy, type ResolvedPolicy } from "../core/policy.ts";
import type { PolicyText } from "../core/policy-text.ts";
import { algorithms } from "./algorithms.ts";
import { policyFromText } from "./policy-text.ts";

/** Validates a policy, given as an object or as text. Throws an error that names the option. */
export function compilePolicy(given: Policy | PolicyText): CompiledPolicy {
  const policy = typeof given === "string" ? policyFromText("policy", given) : given;
  const algorithm = algorithmNameOf(policy);
  const { form } = algorithms[algorithm];
  const known = ["algorithm", "name", "prefix", "share", ...form.options];
  checkOptions(`a ${algorithm} policy`, policy, known, POLICY_HINTS);
  const { prefix, share = false } = policy;
  checkLabel("name", policy.name);
  checkLabel("prefix", prefix);
  checkShare(share, policy.name);

  const numbers = form.compile(policy);
  const { limit, windowMs, unitsPerToken, unitsPerMs, block } = numbers;
  const ownText = form.text(numbers);
  const name = policy.name ?? ownText;
  const refills = unitsPerMs > 0;
  const resolved: ResolvedPolicy = Object.freeze({
    algorithm,
    name,
    ...(prefix === undefined ? {} : { prefix }),
    capacity: limit,
    tokensPerSecond: hasRate(algorithm) ? rateOf(numbers) : 0,
    limit,
    windowMs,
  });
  // Short, because stores keep it with every key. Only the id of a named policy contains a colon.
  const ownOrNamed = name === ownText ? form.shortText(numbers) : `${form.timeText(numbers)}:${name}`;
  const id = form.word[0] + (prefix === undefined ? ownOrNamed : `.${prefix.length}:${prefix}${ownOrNamed}`);
  return Object.freeze({
    algorithm,
    name,
    // The length marks where the name ends, so that no name and prefix run together.
    qualifiedName: `${name.length}:${name}${prefix ?? ""}`,
    id,
    fingerprint: fingerprintOf(id, numbers),
    limit,
    windowMs,
    unitsPerToken,
    capacityUnits: limit * unitsPerToken,
    refills,
    unitsPerMs,
    block,
    share,
    resolved,
  });
}

/** Whether policies of an algorithm have a rate: others count what is held, or strikes. */
function hasRate(algorithm: AlgorithmName): boolean {
  return !algorithms[algorithm].holdsOnly && !algorithms[algorithm].block;
}

function rateOf({ limit, windowMs, unitsPerToken, unitsPerMs }: PolicyNumbers): number {
  return unitsPerMs > 0 ? (unitsPerMs * 1000) / unitsPerToken : (limit * 1000) / windowMs;
}

function algorithmNameOf(policy: Policy): AlgorithmName {
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
  if (typeof algorithm === "string" && Object.hasOwn(algorithms, algorithm)) return algorithm;
  throw optionError("invalid-option", "algorithm", `one of ${Object.keys(algorithms).join(", ")}`, algorithm);
}

/** Names and prefixes appear in headers and stored keys, so they are short and printable. */
function checkLabel(option: "name" | "prefix", value: unknown): void {
  if (value === undefined || (typeof value === "string" && /^[ -~]{1,64}$/.test(value))) return;
  throw optionError("invalid-option", option, "1 to 64 printable ASCII characters", value);
}

function checkShare(share: unknown, name: string | undefined): void {
  if (typeof share !== "boolean") throw optionError("invalid-option", "share", "true or false", share);
  if (!share || name !== undefined) return;
  const message = "share: true needs a name, which the plans have in common.";
  throw new SluiceError("invalid-option", message, { option: "share", expected: "a name beside it", received: share });
}
