/** Counts the open connections of this process by key: one key per IP address and one per user. */

/** One more connection was counted, or the limit was reached. */
export type AcquireResult =
  /** Call `release` when the connection closes. Only the first call has an effect. */
  | { readonly release: () => void; readonly observed?: undefined }
  /** Number of connections that would be open with this one. */
  | { readonly release?: undefined; readonly observed: number };

/** Counts open connections by key. */
export interface ConnectionCounter {
  /** Counts one more connection of `key`, unless `limit` connections are open. */
  acquire(key: string, limit: number): AcquireResult;
}

/** Counts connections in memory. A key without open connections is deleted. */
export class OpenCounts implements ConnectionCounter {
  private readonly counts: Map<string, number> = new Map();

  acquire(key: string, limit: number): AcquireResult {
    const observed = this.count(key) + 1;
    if (observed > limit) return { observed };
    this.counts.set(key, observed);
    let isHeld = true;
    const release = () => {
      if (isHeld) this.decrement(key);
      isHeld = false;
    };
    return { release };
  }

  private count(key: string): number {
    return this.counts.get(key) ?? 0;
  }

  private decrement(key: string): void {
    const left = this.count(key) - 1;
    if (left > 0) this.counts.set(key, left);
    else this.counts.delete(key);
  }
}
