/** Holds the open-connection counts of one client while its upgrade is decided and until it disconnects. */
import { copyKey } from "../../base/copy-key.ts";
import type { ConnectionCounter } from "./open-counts.ts";
import type { SharedCounts } from "./shared-counts.ts";

/** The counts that one connection is part of. */
export class Reservation {
  private readonly counter: ConnectionCounter;
  private readonly held: { readonly key: string; release(): void }[] = [];
  private isCommitted = false;
  private isCancelled = false;
  private released = false;

  constructor(counter: ConnectionCounter) {
    this.counter = counter;
  }

  /** Whether the client has disconnected. */
  get isReleased(): boolean {
    return this.released;
  }

  /** Counts the connection under `key`. Returns the number that would be open if the limit is reached. */
  reserve(key: string, limit: number): number | undefined {
    // The key is kept for as long as the connection is open.
    const ownKey = copyKey(key);
    const { release, observed } = this.counter.acquire(ownKey, limit);
    if (release) this.held.push({ key: ownKey, release });
    return observed;
  }

  /** Counts the connection under `key` in all processes. Returns the same as `reserve`. */
  async reserveShared(key: string, counts: SharedCounts): Promise<number | undefined> {
    const ownKey = copyKey(key);
    const { release, observed } = await counts.acquire(ownKey);
    // After a timeout the upgrade was rejected, and its counts were given back.
    if (release && this.isCancelled) release();
    else if (release) this.held.push({ key: ownKey, release });
    return observed;
  }

  /** Accepts the connection. Returns the keys that it is counted under. */
  commit(): string[] {
    this.isCommitted = true;
    return this.held.map(({ key }) => key);
  }

  /**
   * The client has disconnected. The counts are kept until the upgrade is decided, because they also limit how many
   * pending upgrades one client can cause.
   */
  release(): void {
    this.released = true;
    if (this.isCommitted) this.cancel();
  }

  /** Gives all counts back at once. */
  cancel(): void {
    this.isCancelled = true;
    for (const { release } of this.held) release();
  }
}
