/** Strikes and blocks by hand, on limiters with a penalty policy. */

import { SluiceError } from "../base/errors.ts";
import { checkWhole } from "../base/options.ts";
import { type Duration, parseDuration } from "../base/rate.ts";
import { type Act, DEMAND, type Part, type PartCharge, STRIKE } from "../core/apply.ts";
import { checkCost, checkKey } from "../core/charge.ts";
import type { Decision } from "../core/decision.ts";
import { chargeTo, partsOf } from "../core/part-charges.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import { blockTerms } from "./block-terms.ts";

/** A year: a longer block belongs on a deny list. */
const MAX_BLOCK_MS = 31_536_000_000;

/**
 * Records strikes (default 1), such as wrong passwords, and returns the state after them: denied if the key is blocked now.
 * No effect while it is blocked. The limiter must have a penalty policy.
 */
export async function strike(limiter: RateLimiter, key: string, times = 1): Promise<Decision> {
  const part = penaltyOf("strike", limiter);
  checkKey(key);
  checkCost(times);
  const decision = await applyOne(chargeTo(part, key, times, "take"), STRIKE);
  if (!decision.allowed) for (let own = part.observed; own; own = own.next) own.detectBlock(decision, key);
  return decision;
}

/** Blocks a key for at least `forMs`. The limiter must have a penalty policy. */
export async function block(limiter: RateLimiter, key: string, forMs: Duration): Promise<Decision> {
  const part = penaltyOf("block", limiter);
  checkKey(key);
  const ms = checkWhole("forMs", parseDuration("forMs", forMs), 1, MAX_BLOCK_MS);
  const decision = await applyOne({ ...chargeTo(part, key, 1, "hold"), hold: blockTerms(ms) }, DEMAND);
  for (let own = part.observed; own; own = own.next) own.blocked(key, ms);
  return decision;
}

/** Ends a block and returns whether there was one. Strikes remain; `reset` clears them. The limiter must have a penalty policy. */
export async function unblock(limiter: RateLimiter, key: string): Promise<boolean> {
  const part = penaltyOf("unblock", limiter);
  checkKey(key);
  return (await applyOne({ ...chargeTo(part, key, 0, "settle"), hold: blockTerms() }, DEMAND)).allowed;
}

async function applyOne(charge: PartCharge, act: Act): Promise<Decision> {
  const [decisions] = await charge.engine.apply([[charge]], act);
  return decisions?.[0] as Decision;
}

/** The only part of a limiter with a penalty policy. */
function penaltyOf(call: string, limiter: RateLimiter): Part {
  const [part, ...others] = partsOf(limiter);
  if (part && others.length === 0 && part.policy.kind === "penalty") return part;
  const expected =
    'a limiter with a penalty policy alone, such as createLimiter({ policy: penalty({ blockMs: "1m" }), store })';
  throw new SluiceError("invalid-limiter", `${call}() needs ${expected}.`, { option: "limiter", expected });
}
