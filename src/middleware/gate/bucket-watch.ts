/** Detects two middlewares that share buckets by accident: their limiters have one unnamed policy on one store. */

import { shared } from "../../base/shared-state.ts";
import type { WarningCode } from "../../base/warnings.ts";
import type { ComposableLimiter } from "../../core/part-charges.ts";
import { originOf } from "../../core/store.ts";
import { keyHash } from "../../http/key-hash.ts";
import type { LimiterLike } from "./options.ts";

const SAMPLE = 1000;
const MAX_KEYS = 1000;
const MAX_POLICIES = 1000;

/** A limiter that charges the buckets. */
interface User {
  requests: number;
}

/** The buckets of one unnamed policy on one store. */
interface Buckets {
  /** The limiter that first charged a key, by the hash of the key. */
  readonly firstUsers: Map<number, User>;
  isReported: boolean;
}

const users = /* @__PURE__ */ shared("bucketUsers", () => new WeakMap<LimiterLike, User>());
/** By store and policy id. */
const known = /* @__PURE__ */ shared("unnamedBuckets", () => new WeakMap<object, Map<string, Buckets>>());

/**
 * Returns a function to call with the key of each request, if the limiter has an unnamed policy. It warns once, when two
 * limiters have charged the same key and each has charged several requests: one that is created for a request charges one.
 */
export function bucketWatch<Args>(
  limiter: LimiterLike,
  warn: (message: string, args: Args, code: WarningCode) => void,
): ((key: string, args: Args) => void) | undefined {
  const parts = (limiter as Partial<ComposableLimiter>).parts?.() ?? [];
  // The id of a policy with a name or a prefix contains a colon.
  const part = parts.find(({ policy }) => !policy.id.includes(":"));
  if (!part) return undefined;
  const buckets = bucketsOf(originOf(part.engine.store), part.policy.id);
  if (!buckets) return undefined;
  const { firstUsers } = buckets;
  const user = users.get(limiter) ?? { requests: 0 };
  users.set(limiter, user);
  let left = SAMPLE;
  return (key, args) => {
    // A key that is not a string is rejected by the limiter.
    if (left === 0 || buckets.isReported || typeof key !== "string") return;
    left--;
    user.requests++;
    const hash = keyHash(key);
    const first = firstUsers.get(hash);
    if (first === undefined) {
      if (firstUsers.size < MAX_KEYS) firstUsers.set(hash, user);
    } else if (first !== user && first.requests > 1 && user.requests > 1) {
      buckets.isReported = true;
      firstUsers.clear();
      const message = `Two limiters with the policy "${part.policy.name}" on one store share their buckets, because it has no name. Give each policy a name, such as tokenBucket("5/s", { name: "login" }), or pass the same limiter to each rateLimit.`;
      warn(message, args, "SLUICE_MISUSE");
    }
  };
}

function bucketsOf(origin: object, id: string): Buckets | undefined {
  let byId = known.get(origin);
  if (!byId) known.set(origin, (byId = new Map()));
  const found = byId.get(id);
  if (found || byId.size >= MAX_POLICIES) return found;
  const buckets: Buckets = { firstUsers: new Map(), isReported: false };
  byId.set(id, buckets);
  return buckets;
}
