/** Concurrency: at most `limit` holds at once. Its only state is holds, and a hold that is over leaves no charge. */
import { recordGrant } from "../core/grant.ts";
import { DEFAULT_HOLD_MS, MAX_HOLD_MS } from "../core/hold.ts";
import { checkWhole } from "../core/options.ts";
import type { ConcurrencyPolicy, Policy } from "../core/policy.ts";
import { durationText, parseDuration } from "../core/rate.ts";
import type { Algorithm } from "./algorithm.ts";
import type { PolicyForm } from "./policy-form.ts";
import { peek } from "./step.ts";

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
    return { algorithm: "concurrency", limit: Number(first), ...(leaseMs === undefined ? {} : { leaseMs }) };
  },
  fromNumbers: ({ limit, windowMs }) => ({ algorithm: "concurrency", limit, leaseMs: windowMs }) satisfies Policy,
};

/** One cell that stays 0. */
export const concurrency: Algorithm = {
  name: "concurrency",
  form,
  width: 1,
  holdsOnly: true,
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
