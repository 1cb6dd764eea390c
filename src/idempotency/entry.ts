/**
 * What happens to an entry when it is begun, renewed, completed or released: pure functions of the entry and the time.
 * Memory and Durable Objects call them, and idempotency.lua is their twin in Redis.
 *
 * An owner keeps its claim after the end of its lease, until another request claims the key. Rejecting its response then
 * would only make a retry run the request again.
 */

/** A request that runs, or was abandoned. */
interface ClaimEntry {
  readonly kind: "claim";
  /** Number of owners that have started and not released. */
  readonly attempt: number;
  /** In milliseconds since the epoch, by the store's clock. */
  readonly leaseEndsAt: number;
  readonly leaseMs: number;
  readonly ttlMs: number;
  /** `undefined` after a release that left earlier attempts. */
  readonly owner: string | undefined;
  readonly fingerprint: string;
}

/** A response. `R` is the form in which the store keeps it. */
interface ResponseEntry<R> {
  readonly kind: "response";
  readonly owner: string;
  readonly fingerprint: string;
  readonly response: R;
}

/** The state of a key. */
export type Entry<R> = ClaimEntry | ResponseEntry<R>;

/** The result of a step, and the write that belongs to it. */
export interface Step<Result, R> {
  readonly result: Result;
  /** The entry to store for `ttlMs`, or `null` to delete it. Absent if nothing changes. */
  readonly write?: { readonly entry: Entry<R>; readonly ttlMs: number } | null;
}

/** The fields of a claim that decide. */
interface Claim {
  readonly fingerprint: string;
  readonly owner: string;
  readonly leaseMs: number;
  readonly ttlMs: number;
}

/** What `begin` reports. */
type Begun =
  | { readonly state: "started"; readonly attempt: number }
  | { readonly state: "in-progress"; readonly same: boolean; readonly leaseMs: number }
  | { readonly state: "completed"; readonly same: boolean };

/** Claims a key, or reports its state. */
export function begin<R>(entry: Entry<R> | undefined, claim: Claim, now: number): Step<Begun, R> {
  const { owner, fingerprint, leaseMs, ttlMs } = claim;
  const same = entry?.fingerprint === fingerprint;
  if (entry?.kind === "response") return { result: { state: "completed", same } };
  // Sent again after a lost reply.
  const isOwn = same && entry.owner === owner;
  const leftMs = entry ? entry.leaseEndsAt - now : 0;
  if (!entry || isOwn || leftMs <= 0) {
    const attempt = (entry?.attempt ?? 0) + (isOwn ? 0 : 1);
    const started = { kind: "claim", attempt, leaseEndsAt: now + leaseMs, leaseMs, ttlMs, owner, fingerprint } as const;
    return { result: { state: "started", attempt }, write: { entry: started, ttlMs } };
  }
  const result = { state: "in-progress", same, leaseMs: Math.min(leftMs, entry.leaseMs) } as const;
  if (leftMs <= entry.leaseMs) return { result };
  // The clock has stepped back. Restart the lease: the owner loses nothing, and the key is not blocked until the clock
  // has caught up.
  return { result, write: { entry: { ...entry, leaseEndsAt: now + entry.leaseMs }, ttlMs: entry.ttlMs } };
}

/** Returns the response to the request with this fingerprint. */
export function read<R>(entry: Entry<R> | undefined, fingerprint: string): Step<R | undefined, R> {
  const isFound = entry?.kind === "response" && entry.fingerprint === fingerprint;
  return { result: isFound ? entry.response : undefined };
}

/** Extends the lease of an owner. */
export function renew<R>(entry: Entry<R> | undefined, owner: string, leaseMs: number, now: number): Step<boolean, R> {
  if (entry?.kind !== "claim" || entry.owner !== owner) return { result: false };
  const ttlMs = Math.max(entry.ttlMs, leaseMs);
  return { result: true, write: { entry: { ...entry, leaseEndsAt: now + leaseMs, leaseMs, ttlMs }, ttlMs } };
}

/** Stores the response of an owner. If it is there already, the first one is kept. */
export function complete<R>(entry: Entry<R> | undefined, owner: string, response: R, ttlMs: number): Step<boolean, R> {
  if (entry?.owner !== owner) return { result: false };
  if (entry.kind === "response") return { result: true };
  const { fingerprint } = entry;
  return { result: true, write: { entry: { kind: "response", owner, fingerprint, response }, ttlMs } };
}

/** Undoes the claim of an owner. Earlier attempts may have had an effect, so they stay counted. */
export function release<R>(entry: Entry<R> | undefined, owner: string): Step<boolean, R> {
  if (entry?.kind !== "claim" || entry.owner !== owner) return { result: false };
  if (entry.attempt === 1) return { result: true, write: null };
  const earlier: ClaimEntry = { ...entry, attempt: entry.attempt - 1, leaseEndsAt: 0, owner: undefined };
  return { result: true, write: { entry: earlier, ttlMs: entry.ttlMs } };
}
