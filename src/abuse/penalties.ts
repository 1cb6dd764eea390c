/** Penalties: which identities are blocked, for how long, and the limiters that count their strikes. */

import { optionError, SluiceError, show } from "../base/errors.ts";
import { checkOptions, checkWhole } from "../base/options.ts";
import { parseDuration } from "../base/rate.ts";
import type { PenaltyPolicy } from "../core/policy.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { Store } from "../core/store.ts";
import { isFact, parsePer } from "../http/identity/identities.ts";
import type { RequestPenalty } from "../http/request-charges.ts";
import { penalty as algorithm } from "../penalties/penalty-algorithm.ts";
import { createLimiter, type LimiterOptions } from "../remote/create-limiter.ts";
import type { PenaltyOptions } from "./options.ts";

/** A joint charge has room for two penalties beside the limits of a rule. */
const MAX_PENALTIES = 2;
const MINUTE = 60_000;
const HOUR = 3_600_000;
/** A year: a longer block belongs on a deny list. */
const MAX_BLOCK_MS = 31_536_000_000;
const MAX_FORGET_MS = 2 ** 40;
/** Identities that a stranger can't choose. */
const OWN_IDENTITIES = ["ip", "network", "client", "user", "apiKey"];

/** A validated penalty. */
export interface PenaltySpec {
  /** The option that it was made from. */
  readonly option: string;
  /** As written: `ip+account`. */
  readonly per: string;
  readonly identities: readonly string[];
  readonly policy: PenaltyPolicy;
  /** Strikes that cause the first block. */
  readonly strikes: number;
  /** Whether denials are strikes. */
  readonly isStruck: boolean;
}

/** A penalty on a store. */
export interface Penalty extends RequestPenalty {
  readonly spec: PenaltySpec;
  readonly limiter: RateLimiter;
}

/** Validates penalties. Traps block IP addresses, so they add a penalty that only they strike if there is none per IP address. */
export function parsePenalties(
  penalty: PenaltyOptions | readonly PenaltyOptions[] | undefined,
  hasTraps: boolean,
  prefix: string | undefined,
): readonly PenaltySpec[] {
  const isList = Array.isArray(penalty);
  const given: readonly PenaltyOptions[] = isList ? penalty : penalty === undefined ? [] : [penalty];
  if (isList && given.length === 0) {
    throw optionError("invalid-option", "penalty", "an object, or a list of one or two", penalty);
  }
  const specs = given.map((options, i) => parsePenalty(isList ? `penalty[${i}]` : "penalty", options, prefix));
  for (const [i, { per, option }] of specs.entries()) {
    if (specs.findIndex((other) => other.per === per) === i) continue;
    throw optionError("invalid-option", `${option}.per`, `an identity that no other penalty has`, per);
  }
  if (hasTraps && !specs.some(({ per }) => per === "ip")) {
    specs.push({ ...parsePenalty("traps", {}, prefix), isStruck: false });
  }
  if (specs.length <= MAX_PENALTIES) return specs;
  const traps = hasTraps ? " Traps need one per ip." : "";
  const message = `penalty must have at most ${MAX_PENALTIES} penalties, because each is charged with every request.${traps}`;
  throw new SluiceError("invalid-option", message, { option: "penalty", expected: "at most two penalties" });
}

function parsePenalty(option: string, options: PenaltyOptions, prefix: string | undefined): PenaltySpec {
  checkOptions(option, options, ["per", "strikes", "block", "factor", "maxBlock", "forget"]);
  const { per = "ip", strikes = 10, block = MINUTE, factor = 2, forget = 10 * MINUTE } = options;
  const identities = checkPer(`${option}.per`, per);
  checkWhole(`${option}.strikes`, strikes, 1, 1000);
  checkWhole(`${option}.factor`, factor, 1, 1000);
  const blockMs = durationOf(`${option}.block`, block, MAX_BLOCK_MS);
  const maxBlockMs = durationOf(`${option}.maxBlock`, options.maxBlock ?? Math.max(HOUR, blockMs), MAX_BLOCK_MS);
  const forgetMs = durationOf(`${option}.forget`, forget, MAX_FORGET_MS);
  if (maxBlockMs < blockMs) {
    const expected = `at least ${option}.block (${show(block)})`;
    throw optionError("invalid-option", `${option}.maxBlock`, expected, options.maxBlock);
  }
  const durations = { strikes, blockMs, factor, maxBlockMs, forgetMs };
  const policy: PenaltyPolicy = {
    algorithm,
    ...durations,
    name: `penalty.${per}`,
    ...(prefix === undefined ? {} : { prefix }),
  };
  return { option, per, identities, policy, strikes, isStruck: true };
}

function durationOf(option: string, value: unknown, max: number): number {
  return checkWhole(option, parseDuration(option, value), 1, max);
}

/** A stranger who could choose the key could block its owner. */
function checkPer(option: string, per: unknown): readonly string[] {
  const identities = typeof per === "string" && per.length <= 48 ? parsePer(per) : "is not an identity";
  if (typeof identities === "string") {
    const expected = 'an identity such as "ip", "user" or "ip+account"';
    throw optionError("invalid-option", option, expected, per);
  }
  const isOwn = identities.every((identity) => OWN_IDENTITIES.includes(identity)) || identities.includes("ip");
  if (isOwn && !identities.includes("clearance")) return identities;
  const message =
    per === "global" || identities.includes("clearance")
      ? `${option}: ${show(per)} can't be blocked; use "ip", "user" or a combination with "ip".`
      : `${option}: ${show(per)} can be chosen by a stranger, who could lock out its owner; use "ip" or "ip+${per as string}".`;
  throw new SluiceError("invalid-option", message, {
    option,
    expected: '"ip", or a combination with it',
    received: per,
  });
}

/** Where penalties are stored, and the options for a store that can fail. */
export type AbuseStorage = Pick<LimiterOptions, "deadlineMs" | "localDenialMs" | "onEvent" | "observer"> & {
  readonly store: Store;
};

/** Creates the limiters of penalties. */
export function createPenalties(specs: readonly PenaltySpec[], storage: AbuseStorage): readonly Penalty[] {
  return specs.map((spec) => {
    const { identities, policy, isStruck } = spec;
    return { spec, identities, isStruck, limiter: createPenalty(policy, storage) };
  });
}

function createPenalty(policy: PenaltyPolicy, storage: AbuseStorage): RateLimiter {
  try {
    return createLimiter({ ...storage, policy });
  } catch (error) {
    if (!(error instanceof SluiceError && error.code === "policy-conflict")) throw error;
    const message = `Another abuse() or a rule on this store has a policy named "${policy.name}" with other numbers. Use one abuse() for both, or set prefix in one of them.`;
    throw new SluiceError("policy-conflict", message, { option: "prefix", expected: "another prefix", cause: error });
  }
}

/** Whether the keys of a penalty contain facts, which only rules have. */
export function needsFacts({ identities }: PenaltySpec): boolean {
  return identities.some(isFact);
}
