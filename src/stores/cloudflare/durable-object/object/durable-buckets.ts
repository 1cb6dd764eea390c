/**
 * The work of a Durable Object: the pure algorithms on the buckets of its table, with its own clock. Each call reads and
 * writes in one synchronous step, so no other call can run in between.
 */

import { wallClockMs } from "../../../../base/clock.ts";
import type { Charge, Group } from "../../../../core/charge.ts";
import type { Decision } from "../../../../core/decision.ts";
import { decideGroup, describeState } from "../../../../holds/with-holds.ts";
import type { DurableObjectStorageLike } from "../../platform.ts";
import { PROTOCOL_VERSION } from "../wire/calls.ts";
import { type ApplyReply, encodeDecision, type InspectReply } from "../wire/replies.ts";
import { parseApplyCall, parseBucketCall } from "../wire/validate.ts";
import { BucketTable, type Changes } from "./bucket-table.ts";

/** Minimum delay of the next alarm if this one was early and found nothing to delete. */
const MIN_ALARM_DELAY_MS = 1000;

/** The buckets of one object, and the alarm that deletes them when they expire. */
export class DurableBuckets {
  private readonly storage: DurableObjectStorageLike;
  private readonly table: BucketTable;
  /** When the alarm is due, in milliseconds since the epoch; `null` if none is set. */
  private alarmAt: number | null = null;

  constructor(storage: DurableObjectStorageLike) {
    this.storage = storage;
    this.table = new BucketTable(storage);
  }

  /** Reads the alarm that an earlier instance has set: alarms outlive the memory of an object. */
  async loadAlarm(): Promise<void> {
    this.alarmAt = await this.storage.getAlarm();
  }

  /** Applies groups in order, each all or nothing. A bucket that several groups change is written once. */
  async apply(call: unknown): Promise<ApplyReply> {
    const groups = parseApplyCall(call);
    const now = wallClockMs();
    const changes: Changes = new Map();
    const decided = groups.map((group) => this.decideGroup(group, now, changes).map(encodeDecision));
    // Set the alarm in the same turn: rows and alarm are then stored together or not at all.
    if (changes.size > 0) await this.setAlarmBy(this.table.write(changes, now));
    return { version: PROTOCOL_VERSION, now, groups: decided };
  }

  async inspect(call: unknown): Promise<InspectReply> {
    const { policy, bucket } = parseBucketCall(call);
    const now = wallClockMs();
    const { policy: _name, ...description } = describeState(this.table.read(bucket, policy.algorithm), policy, now);
    const row = description.found ? this.table.readRow(bucket) : undefined;
    return {
      version: PROTOCOL_VERSION,
      description,
      raw: row?.raw ?? null,
      ttlMs: row ? row.keptUntil - now : null,
    };
  }

  /** Deletes expired buckets. An object without buckets keeps no alarm and no storage, so it is not billed. */
  async deleteExpired(): Promise<void> {
    this.alarmAt = null;
    const now = wallClockMs();
    const next = this.table.deleteExpired(now);
    if (next === undefined) await this.table.deleteStorage();
    else await this.setAlarmBy(next > now ? Math.max(next, now + MIN_ALARM_DELAY_MS) : now);
  }

  /** Decides one group. Later groups of the call see its changes, which are written in one transaction. */
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

  /** Sets the alarm, unless one is due by then. */
  private async setAlarmBy(time: number): Promise<void> {
    if (time === Number.POSITIVE_INFINITY || (this.alarmAt !== null && this.alarmAt <= time)) return;
    this.alarmAt = time;
    await this.storage.setAlarm(time);
  }
}
