/** Holds as callers use them: an amount is reserved first, and charged when the actual cost is known. */

import { optionError } from "../base/errors.ts";
import { checkOptions, checkWhole } from "../base/options.ts";
import { type Duration, parseDuration } from "../base/rate.ts";
import type { Allowed, Decision, DecisionFields, Denied } from "../core/decision.ts";

/** Options of `hold`. */
export interface HoldOptions {
  /**
   * Id of the hold: 1 to 64 of `A-Z a-z 0-9 _ . ~ -`. Holding the same id again replaces the hold, so a retry holds
   * once. Default: a random id.
   */
  id?: string;
  /** Time until the hold ends unless it is settled or renewed, up to 1 d. Default: the policy's `leaseMs`, or 60 000. */
  forMs?: Duration;
}

/** Options of `renew`. */
export interface RenewOptions {
  /** Time from now until the hold ends. Default: as long as it was held for. */
  forMs?: Duration;
  /** The new amount. Default: the same. */
  amount?: number;
}

/** The decision on a hold: allowed with the hold, or denied. */
export type HoldDecision = (Allowed & { readonly hold: Hold }) | Denied;

/** The type of `Symbol.asyncDispose` where the `lib` of the project declares it. */
type AsyncDispose = typeof Symbol extends { readonly asyncDispose: infer S extends symbol } ? S : never;

/** A reserved amount. `await using` settles it in full at the end of its block, unless it was settled before. */
export type Hold = HoldMethods & { readonly [S in AsyncDispose]: () => Promise<void> };

/** The members of a hold. */
export interface HoldMethods {
  /** Its id. With the key, it is all that another process needs to settle it. */
  readonly id: string;
  /** The key that it was held for; with `holdAll`, that of the first charge. */
  readonly key: string;
  /** The held amount. */
  readonly amount: number;
  /** How long it was held for, in ms: the default of `renew`. */
  readonly forMs: number;
  /**
   * Charges the actual cost and frees the rest. Default: the held amount. Of several limiters: one number for all that
   * have a rate, or, with `holdAll`, one per charge. Settling twice has the effect of settling once.
   */
  settle(actual?: number | readonly number[]): Promise<Settlement>;
  /** Frees the whole amount: `settle(0)`. */
  cancel(): Promise<Settlement>;
  /**
   * Sets a new end, and optionally a new amount. If that is denied, the hold stays as it was. A hold that this object has
   * settled can't be renewed: that is denied.
   */
  renew(options?: RenewOptions): Promise<Decision>;
}

/** The result of a settlement, with the numbers after it. */
export interface Settlement extends DecisionFields {
  /** Whether the hold still existed. `false`: it had ended, and was charged in full, or it was settled before. */
  readonly settled: boolean;
  /** The store could not be reached. The settlement is retried in the background until the hold ends. */
  readonly pending?: true;
}

/** `Symbol.asyncDispose`, or what compilers use where the runtime does not have it. */
export const ASYNC_DISPOSE: symbol =
  (Symbol as { asyncDispose?: symbol }).asyncDispose ?? Symbol.for("Symbol.asyncDispose");

/** Duration of a hold on a policy without a lease, in ms. */
export const DEFAULT_HOLD_MS = 60_000;
/** Work that takes longer renews its hold. */
export const MAX_HOLD_MS = 86_400_000;
/** The ids that a hold may have. The stores check the same. */
export const HOLD_ID: RegExp = /^[\w.~-]{1,64}$/;

const HOLD_OPTIONS = ["id", "forMs"];

/** Checks the options of a hold, and returns its id and duration in ms. */
export function parseHoldOptions(options: HoldOptions, defaultMs: number): { id: string; forMs: number } {
  checkOptions("hold", options, HOLD_OPTIONS);
  const { id, forMs } = options;
  if (id !== undefined) checkHoldId(id);
  return { id: id ?? randomId(), forMs: forMs === undefined ? defaultMs : parseHoldMs(forMs) };
}

/** Throws if it is not the id of a hold. */
export function checkHoldId(id: unknown): void {
  if (typeof id === "string" && HOLD_ID.test(id)) return;
  throw optionError("invalid-option", "id", "1 to 64 letters, digits or characters of _ . ~ -", id);
}

/** Checks the duration of a hold, and returns it in ms. */
export function parseHoldMs(forMs: Duration): number {
  return checkWhole("forMs", parseDuration("forMs", forMs), 1, MAX_HOLD_MS);
}

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
let processId = "";
let created = 0;

/** An id that no other process creates: 72 random bits, and a counter. Random bits for each hold would cost more. */
function randomId(): string {
  // Not at module level: Workers have no random numbers there.
  if (processId === "") {
    for (const byte of crypto.getRandomValues(new Uint8Array(12))) processId += ALPHABET[byte & 63];
  }
  created++;
  return `${processId}.${created.toString(36)}`;
}
