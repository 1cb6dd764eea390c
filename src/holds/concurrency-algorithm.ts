/** Concurrency: at most `limit` holds at once. Its only state is holds, and a hold that is over leaves no charge. */

import { SluiceError } from "../base/errors.ts";
import { checkWhole } from "../base/options.ts";
import { durationText, parseDuration } from "../base/rate.ts";
import type { Algorithm, PolicyForm } from "../core/compiled-policy.ts";
import { recordGrant } from "../core/grant.ts";
import type { ConcurrencyPolicy } from "../core/policy.ts";
import { peek } from "../core/step.ts";
import { DEFAULT_HOLD_MS, MAX_HOLD_MS } from "./hold-options.ts";

const MAX_LIMIT = 2 ** 31 - 1;

const form: PolicyForm = {
  options: ["limit", "leaseMs"],
  word: "concurrent",
  compile(policy) {
    const { limit, leaseMs = DEFAULT_HOLD_MS } = policy as ConcurrencyPolicy;
    const windowMs = checkWhole("leaseMs", parseDuration("leaseMs", leaseMs), 1, MAX_HOLD_MS);
    return { limit: checkWhole("limit", limit, 1, MAX_LIMIT), windowMs, unitsPerToken: 1, unitsPerMs: 0 };
  },
  text: ({ limit, windowMs }) =>
    `${limit} concurrent${windowMs === DEFAULT_HOLD_MS ? "" : ` lease ${durationText(windowMs)}`}`,
  shortText: ({ limit, windowMs }) => `${limit}@${durationText(windowMs)}`,
  // The ends of leases are absolute, so policies with different leases may share a bucket.
  timeText: () => "",
  fromText(_option, first, [word, lease, ...more]) {
    const isLease = word === undefined || (word === "lease" && lease !== undefined && more.length === 0);
    if (!/^\d{1,10}$/.test(first) || !isLease) return undefined;
    const leaseMs = lease as ConcurrencyPolicy["leaseMs"];
    return { algorithm: concurrency, limit: Number(first), ...(leaseMs === undefined ? {} : { leaseMs }) };
  },
  fromNumbers: ({ limit, windowMs }) => ({ algorithm: "concurrency", limit, leaseMs: windowMs }),
};

/** One cell that stays 0. */
export const concurrency: Algorithm & { readonly name: "concurrency" } = {
  name: "concurrency",
  form,
  width: 1,
  holdsOnly: true,
  // A cost of 0 takes nothing, so it can't bypass the limit.
  consume: ({ name }, cost) => (cost === 0 ? { mode: "peek", cost } : rejectConsume(name)),
  // Nothing is taken: only holds count.
  take: (cells, at, policy, cost, now) =>
    recordGrant(peek({ algorithm: concurrency, cells, at, policy }, cost, now), now, 0),
  used: () => 0,
  wait: () => 0,
  reset: () => 0,
  isInFuture: () => false,
  add() {},
  refund() {},
};

/** `consume` on a concurrency limit would limit nothing. */
function rejectConsume(name: string): never {
  throw new SluiceError(
    "unsupported",
    `"${name}" limits what is held at once, so consume() can't be used with it. Use hold(), which returns a hold to settle when the work is done.`,
    { option: "consume", expected: "hold()", received: name },
  );
}
