/**
 * What a Durable Object does: the pure algorithms on the buckets of its table, with its own clock. A call is one
 * synchronous step from reading to writing, so that no other call can come in between.
 */

import { decide, decideGroup } from "../../../../algorithms/decide.ts";
import type { Charge, Group } from "../../../../core/charge.ts";
import { wallClockMs } from "../../../../core/clock.ts";
import type { Decision } from "../../../../core/decision.ts";
import type { DurableObjectStorageLike } from "../../platform.ts";
import { readBucketCall, readTakeCall, type TakeReply, type WireInspection, wireDecision } from "../wire/wire.ts";
import { BucketTable, type Changes } from "./bucket-table.ts";

/** An alarm that comes before its time finds nothing; it is not set to come again at once. */
const EARLY_MS = 1000;

/** The buckets of one object, and the alarm that forgets them. */
export class DurableBuckets {
  private readonly storage: DurableObjectStorageLike;
  private readonly table: BucketTable;
  /** When the alarm goes off, if it is set. */
  private alarmAt: number | null = null;

  constructor(storage: DurableObjectStorageLike) {
    this.storage = storage;
    this.table = new BucketTable(storage);
  }

  /** Learns what was left behind: an alarm outlives the memory of its object. */
  async wake(): Promise<void> {
    this.alarmAt = await this.storage.getAlarm();
  }

  /** Groups of charges, each all or none, in order. A bucket that several of them change is written once. */
  async take(call: unknown): Promise<TakeReply> {
    const groups = readTakeCall(call);
    const now = wallClockMs();
    const changes: Changes = new Map();
    const decided = groups.map((group) => this.decideGroup(group, now, changes).map(wireDecision));
    // In the same turn as the rows, so that neither is stored without the other.
    if (changes.size > 0) await this.wakeBy(this.table.write(changes, now));
    return { now, groups: decided };
  }

  async reset(call: unknown): Promise<void> {
    this.table.remove(readBucketCall(call).bucket);
  }

  async inspect(call: unknown): Promise<WireInspection> {
    const { policy, bucket } = readBucketCall(call);
    const now = wallClockMs();
    const charge: Charge = { policy, key: bucket, cost: 0, mode: "peek" };
    const { decision } = decide(this.table.read(bucket, policy.algorithm), charge, now);
    const row = decision.resetAfterMs > 0 ? this.table.show(bucket) : undefined;
    return {
      decision: wireDecision(decision),
      raw: row?.raw ?? null,
      ttlMs: row ? row.keptUntil - now : null,
    };
  }

  /** Decides one group. Later groups of the same call see its changes, which are written in one transaction. */
  private decideGroup(group: Group, now: number, changes: Changes): Decision[] {
    const results = decideGroup(
      group,
      ({ key, policy }) => changes.get(key)?.state ?? this.table.read(key, policy.algorithm),
      now,
    );
    return results.map(({ decision, state, changed, ttlMs }, i) => {
      if (changed) changes.set((group[i] as Charge).key, { state, expires: now + ttlMs });
      return decision;
    });
  }

  /** Forgets what has expired. An object without buckets has no alarm and no storage, and costs nothing. */
  async expire(): Promise<void> {
    this.alarmAt = null;
    const now = wallClockMs();
    const next = this.table.expire(now);
    if (next === undefined) await this.table.vanish();
    else await this.wakeBy(next > now ? Math.max(next, now + EARLY_MS) : now);
  }

  /** Sets the alarm, unless one is set that comes soon enough. */
  private async wakeBy(time: number): Promise<void> {
    if (time === Number.POSITIVE_INFINITY || (this.alarmAt !== null && this.alarmAt <= time)) return;
    this.alarmAt = time;
    await this.storage.setAlarm(time);
  }
}
