/** Idempotent responses in this process's memory: bounded in entries and bytes, without timers. */
import { type Clock, checkedClock, systemClock } from "../base/clock.ts";
import { copyKey } from "../base/copy-key.ts";
import { optionError, SluiceError } from "../base/errors.ts";
import { checkOptions, checkWhole } from "../base/options.ts";
import { shortKey } from "../memory/short-key.ts";
import { checkClaim, checkDuration, checkId, checkKey, checkResponse } from "./check-input.ts";
import { begin, complete, type Entry, read, release, renew, type Step } from "./entry.ts";
import type {
  BeginResult,
  IdempotencyClaim,
  IdempotencyKey,
  IdempotencyStore,
  StoredResponse,
} from "./idempotency-store.ts";
import { joinKey } from "./join-key.ts";
import { ScopedSlots, type Slot } from "./scoped-slots.ts";

/** Options of `memoryIdempotencyStore`. */
export interface MemoryIdempotencyStoreOptions {
  /** Maximum number of keys. Default: 10 000. */
  maxEntries?: number;
  /** Maximum size of all entries, in bytes. Default: 67 108 864 (64 MiB). */
  maxBytes?: number;
  /** Source of time, for tests. Default: the system clock, made monotonic. */
  clock?: Clock;
}

/** An idempotency store in this process's memory. */
export interface MemoryIdempotencyStore extends IdempotencyStore {
  /** Number of entries, including expired ones that are not deleted yet. */
  readonly size: number;
  /** Estimated size of all entries, in bytes. */
  readonly bytes: number;
  /**
   * Number of evicted responses that had not expired: first those of the scope that uses most of the store. Their requests
   * would run again. Above 0, raise the limits.
   */
  readonly evictions: number;
  /** Called with the scope of every evicted response. `idempotent` sets it, and emits the event `evicted`. */
  onEviction: ((scope: string) => void) | undefined;
}

const MAX_ENTRIES = 2 ** 24;
/** The objects of one entry and of its scope, in bytes. */
const ENTRY_OVERHEAD_BYTES = 850;
/** How much longer than its claim an entry without headers and body is at most. Owners have 128 characters or fewer. */
const MAX_CLAIM_GROWTH_BYTES = 256;

/** Creates a store in memory: for one process, and lost with it. */
export function memoryIdempotencyStore(options: MemoryIdempotencyStoreOptions = {}): MemoryIdempotencyStore {
  checkOptions("memoryIdempotencyStore", options, ["maxEntries", "maxBytes", "clock"]);
  const { maxEntries = 10_000, maxBytes = 64 * 2 ** 20, clock } = options;
  checkWhole("maxEntries", maxEntries, 1, MAX_ENTRIES);
  checkWhole("maxBytes", maxBytes, 1, Number.MAX_SAFE_INTEGER);
  if (clock !== undefined && typeof clock?.now !== "function") {
    throw optionError("invalid-option", "clock", "an object with now()", clock);
  }
  return new InMemoryIdempotencyStore(clock ? checkedClock(clock) : systemClock(), maxEntries, maxBytes);
}

class InMemoryIdempotencyStore implements MemoryIdempotencyStore {
  readonly isLocal = true;
  evictions = 0;
  onEviction: ((scope: string) => void) | undefined = undefined;
  private readonly clock: Clock;
  private readonly maxEntries: number;
  private readonly maxBytes: number;
  private readonly table: ScopedSlots;
  /** No slot is expired or abandoned before this instant. */
  private nextSweepAt = Number.POSITIVE_INFINITY;

  constructor(clock: Clock, maxEntries: number, maxBytes: number) {
    this.clock = clock;
    this.maxEntries = maxEntries;
    this.maxBytes = maxBytes;
    this.table = new ScopedSlots(maxBytes / maxEntries);
  }

  get size(): number {
    return this.table.slots.size;
  }

  get bytes(): number {
    return this.table.bytes;
  }

  async begin(claim: IdempotencyClaim): Promise<BeginResult> {
    checkClaim(claim);
    return this.step(claim, (entry, now) => begin(entry, claim, now));
  }

  async read(key: IdempotencyKey, fingerprint: string): Promise<StoredResponse | undefined> {
    checkKey(key);
    checkId("fingerprint", fingerprint);
    const response = this.step(key, (entry) => read(entry, fingerprint));
    return response && copyResponse(response);
  }

  async renew(key: IdempotencyKey, owner: string, leaseMs: number): Promise<boolean> {
    checkKey(key);
    checkId("owner", owner);
    checkDuration("leaseMs", leaseMs);
    return this.step(key, (entry, now) => renew(entry, owner, leaseMs, now));
  }

  async complete(key: IdempotencyKey, owner: string, response: StoredResponse, ttlMs: number): Promise<boolean> {
    checkKey(key);
    checkId("owner", owner);
    checkResponse(response);
    checkDuration("ttlMs", ttlMs);
    const copy = copyResponse(response, copyKey);
    return this.step(key, (entry) => complete(entry, owner, copy, ttlMs));
  }

  async release(key: IdempotencyKey, owner: string): Promise<void> {
    checkKey(key);
    checkId("owner", owner);
    this.step(key, (entry) => release(entry, owner));
  }

  /** Reads an entry, takes one step and writes the result, without an `await` in between. */
  private step<Result>(
    key: IdempotencyKey,
    take: (entry: Entry<StoredResponse> | undefined, now: number) => Step<Result, StoredResponse>,
  ): Result {
    const now = this.clock.now();
    const { table } = this;
    const name = shortKey(joinKey(key));
    let found: Slot | undefined = table.slots.get(name);
    if (found && found.expiresAt <= now) {
      table.delete(name);
      found = undefined;
    }
    const { result, write } = take(found?.entry, now);
    if (write) {
      const { ttlMs } = write;
      const entry = copyTexts(write.entry);
      const slot = { entry, expiresAt: now + ttlMs, bytes: 2 * name.length + entryBytes(entry) };
      const scope = shortKey(key.scope);
      if (found) this.makeRoomForResponse(scope, name, slot.bytes - found.bytes, now);
      else this.makeRoomForClaim(scope, name, slot.bytes, now);
      table.set(name, scope, slot);
      this.nextSweepAt = Math.min(this.nextSweepAt, sweepableAt(slot));
    } else if (write === null) {
      table.delete(name);
    }
    return result;
  }

  /**
   * Makes room for a new claim. Throws if that would evict the response of a scope that uses less of the store, or if the
   * scope has more than half of it in progress: the responses of others would have to fit into the rest.
   */
  private makeRoomForClaim(scope: string, name: string, bytes: number, now: number): void {
    const { table, maxEntries, maxBytes } = this;
    if (this.fits(bytes, 1) && !table.hasHalfInProgress(scope, maxEntries, maxBytes)) return;
    if (now >= this.nextSweepAt) this.sweep(name, now);
    const isOverShare = table.hasHalfInProgress(scope, maxEntries, maxBytes);
    while (isOverShare || !this.fits(bytes, 1)) {
      if (!isOverShare && this.evict(scope)) continue;
      throw new SluiceError(
        "store-unavailable",
        "The idempotency store is full, and requests in progress are never evicted. Raise maxEntries or maxBytes.",
        { option: "store", expected: `room within maxEntries (${maxEntries}) and maxBytes (${maxBytes})` },
      );
    }
  }

  /**
   * Makes room for a response in place of its claim. Throws if it would not fit in a store without other responses: the
   * caller stores one without a body then, which is as short as a claim and always fits. A finished response is never
   * dropped for a claim, because its retry would run again.
   */
  private makeRoomForResponse(scope: string, name: string, bytes: number, now: number): void {
    if (bytes <= MAX_CLAIM_GROWTH_BYTES || this.fits(bytes, 0)) return;
    if (now >= this.nextSweepAt) this.sweep(name, now);
    const room = Math.max(0, this.maxBytes - this.table.claimBytes);
    if (bytes > room)
      throw optionError("out-of-range", "response", `at most ${room} bytes, which maxBytes leaves`, bytes);
    while (!this.fits(bytes, 0)) if (!this.evict(scope)) this.evict();
  }

  private fits(bytes: number, entries: number): boolean {
    return this.size + entries <= this.maxEntries && this.bytes + bytes <= this.maxBytes;
  }

  /** Evicts a response. Returns whether there was one that may be evicted. */
  private evict(scope?: string): boolean {
    const evicted = this.table.evict(scope);
    if (evicted === undefined) return false;
    this.evictions++;
    this.onEviction?.(evicted);
    return true;
  }

  /** Deletes expired entries, and claims whose lease has ended: a retry would run those again anyway. */
  private sweep(name: string, now: number): void {
    this.nextSweepAt = Number.POSITIVE_INFINITY;
    for (const [other, slot] of this.table.slots) {
      if (other !== name && sweepableAt(slot) <= now) this.table.delete(other);
      else this.nextSweepAt = Math.min(this.nextSweepAt, sweepableAt(slot));
    }
  }
}

/** When a slot protects nothing any more. */
function sweepableAt({ entry, expiresAt }: Slot): number {
  return entry.kind === "claim" ? Math.min(entry.leaseEndsAt, expiresAt) : expiresAt;
}

function entryBytes(entry: Entry<StoredResponse>): number {
  const bytes = ENTRY_OVERHEAD_BYTES + (entry.owner?.length ?? 0) + entry.fingerprint.length;
  if (entry.kind === "claim") return bytes;
  const { headers, body } = entry.response;
  return bytes + 2 * JSON.stringify(headers).length + (body?.length ?? 0);
}

/** Copies the texts of an entry, because a slice of a header retains the whole header. */
function copyTexts<E extends Entry<StoredResponse>>(entry: E): E {
  const { owner, fingerprint } = entry;
  return { ...entry, owner: owner && copyKey(owner), fingerprint: copyKey(fingerprint) };
}

/** Copies a response, so that the caller and the store can't change each other's. */
function copyResponse(
  { status, headers, body }: StoredResponse,
  copyText: (text: string) => string = (text) => text,
): StoredResponse {
  const copied = Object.entries(headers).map(([name, value]) => [
    name,
    typeof value === "string" ? copyText(value) : value.map(copyText),
  ]);
  return { status, headers: Object.fromEntries(copied), body: body && new Uint8Array(body) };
}
