/** Idempotent responses in this process's memory: bounded in entries and bytes, without timers. */
import { type Clock, checkedClock, systemClock } from "../../core/clock.ts";
import { copyKey } from "../../core/copy-key.ts";
import { optionError, SluiceError } from "../../core/errors.ts";
import { checkOptions, checkWhole } from "../../core/options.ts";
import { checkClaim, checkDuration, checkId, checkKey, checkResponse } from "../../idempotency/check-input.ts";
import { begin, complete, type Entry, release, renew, type Step } from "../../idempotency/entry.ts";
import type {
  BeginResult,
  IdempotencyClaim,
  IdempotencyKey,
  IdempotencyStore,
  StoredResponse,
} from "../../idempotency/idempotency-store.ts";
import { joinKey } from "../../idempotency/join-key.ts";
import { shortKey } from "./short-key.ts";

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
  /** Number of evicted responses that had not expired. Their requests would run again. Above 0, raise the limits. */
  readonly evictions: number;
}

const MAX_ENTRIES = 2 ** 24;
/** The objects of one entry and its place in the map, in bytes. */
const ENTRY_OVERHEAD_BYTES = 400;

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

interface Slot {
  readonly entry: Entry<StoredResponse>;
  /** In milliseconds since the epoch. */
  readonly expiresAt: number;
  readonly bytes: number;
}

/** Slots by name, oldest first, and their size. */
class SlotMap {
  readonly slots: Map<string, Slot> = new Map();
  bytes = 0;

  set(name: string, slot: Slot): void {
    this.slots.set(copyKey(name), slot);
    this.bytes += slot.bytes;
  }

  delete(name: string): void {
    this.bytes -= this.slots.get(name)?.bytes ?? 0;
    this.slots.delete(name);
  }
}

class InMemoryIdempotencyStore implements MemoryIdempotencyStore {
  evictions = 0;
  private readonly clock: Clock;
  private readonly maxEntries: number;
  private readonly maxBytes: number;
  /** Requests that run or were abandoned. */
  private readonly claims: SlotMap = new SlotMap();
  private readonly responses: SlotMap = new SlotMap();
  /** No slot is expired or abandoned before this instant. */
  private nextSweepAt = Number.POSITIVE_INFINITY;

  constructor(clock: Clock, maxEntries: number, maxBytes: number) {
    this.clock = clock;
    this.maxEntries = maxEntries;
    this.maxBytes = maxBytes;
  }

  get size(): number {
    return this.claims.slots.size + this.responses.slots.size;
  }

  get bytes(): number {
    return this.claims.bytes + this.responses.bytes;
  }

  async begin(claim: IdempotencyClaim): Promise<BeginResult> {
    checkClaim(claim);
    const result = this.step(claim, (entry, now) => begin(entry, claim, now));
    return result.state === "completed" ? { ...result, response: copyResponse(result.response) } : result;
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
    const name = shortKey(joinKey(key));
    let found = this.claims.slots.get(name) ?? this.responses.slots.get(name);
    if (found && found.expiresAt <= now) {
      this.delete(name);
      found = undefined;
    }
    const { result, write } = take(found?.entry, now);
    if (write) {
      const { ttlMs } = write;
      const entry = copyTexts(write.entry);
      const slot = { entry, expiresAt: now + ttlMs, bytes: 2 * name.length + entryBytes(entry) };
      this.makeRoom(name, slot.bytes - (found?.bytes ?? 0), found ? 0 : 1, now);
      this.delete(name);
      (entry.kind === "claim" ? this.claims : this.responses).set(name, slot);
      this.nextSweepAt = Math.min(this.nextSweepAt, sweepableAt(slot));
    } else if (write === null) {
      this.delete(name);
    }
    return result;
  }

  /**
   * Deletes entries until there is room for this many bytes and entries of `name`, which is no response yet: first
   * those that protect nothing, then the oldest responses.
   */
  private makeRoom(name: string, bytes: number, entries: number, now: number): void {
    const fits = (inUse: { size: number; bytes: number }) =>
      inUse.size + entries <= this.maxEntries && inUse.bytes + bytes <= this.maxBytes;
    if (fits(this)) return;
    if (now >= this.nextSweepAt) this.sweep(name, now);
    const { slots, bytes: claimedBytes } = this.claims;
    if (!fits({ size: slots.size, bytes: claimedBytes })) {
      throw new SluiceError(
        "store-unavailable",
        "The idempotency store is full, and requests in progress are never evicted. Raise maxEntries or maxBytes.",
        { option: "store", expected: `room within maxEntries (${this.maxEntries}) and maxBytes (${this.maxBytes})` },
      );
    }
    for (const oldest of this.responses.slots.keys()) {
      if (fits(this)) return;
      this.responses.delete(oldest);
      this.evictions++;
    }
  }

  /** Deletes expired entries, and claims whose lease has ended: a retry would run those again anyway. */
  private sweep(name: string, now: number): void {
    this.nextSweepAt = Number.POSITIVE_INFINITY;
    for (const map of [this.claims, this.responses]) {
      for (const [other, slot] of map.slots) {
        if (other !== name && sweepableAt(slot) <= now) map.delete(other);
        else this.nextSweepAt = Math.min(this.nextSweepAt, sweepableAt(slot));
      }
    }
  }

  private delete(name: string): void {
    this.claims.delete(name);
    this.responses.delete(name);
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
