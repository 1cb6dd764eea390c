/**
 * When keys were last refunded or reset by this process. What was learned of a key before that is out of date: a
 * denial must not be repeated from memory, and a reply that was under way must not bring it back.
 */
import { copyKey } from "../core/copy-key.ts";

/** So many keys are told apart; of older ones only the time of the last is known, which then stands for every key. */
const MAX_KEYS = 1000;
/** Keys longer than this are not told apart at all. */
const MAX_NAME_CHARS = 1024;

/** One per store. Times are elapsed milliseconds. */
export class Invalidations {
  private readonly times: Map<string, number> = new Map();
  private floor: number = Number.NEGATIVE_INFINITY;

  /** Notes that a key of a bucket was changed for the better. */
  record(bucket: string, key: string, now: number): void {
    const name = `${bucket}\0${key}`;
    if (name.length > MAX_NAME_CHARS) {
      this.floor = now;
      return;
    }
    this.times.delete(name);
    this.times.set(copyKey(name), now);
    if (this.times.size <= MAX_KEYS) return;
    const [oldest, time] = this.times.entries().next().value as [string, number];
    this.times.delete(oldest);
    this.floor = Math.max(this.floor, time);
  }

  /** Whether what was asked at `sentAt` still stands. */
  isCurrent(bucket: string, key: string, sentAt: number): boolean {
    if (sentAt <= this.floor) return false;
    return this.times.size === 0 || sentAt > (this.times.get(`${bucket}\0${key}`) ?? Number.NEGATIVE_INFINITY);
  }
}
