/** How many connections are open, by address and by user, in this process. */

/** One count that a connection is part of. */
export interface OpenCount {
  readonly key: string;
  readonly limit: number;
}

/** Counts open connections, or tells which count has no room for one more. */
export interface Counting {
  enter(counts: readonly OpenCount[]): { full: OpenCount; observed: number } | { full?: undefined; release(): void };
}

/** A name that nobody has open is not kept. */
export class OpenCounts implements Counting {
  private readonly open: Map<string, number> = new Map();

  enter(counts: readonly OpenCount[]): ReturnType<Counting["enter"]> {
    for (const full of counts) {
      const observed = this.count(full.key) + 1;
      if (observed > full.limit) return { full, observed };
    }
    for (const { key } of counts) this.open.set(key, this.count(key) + 1);
    let isOpen = true;
    const release = () => {
      if (!isOpen) return;
      isOpen = false;
      for (const { key } of counts) this.leave(key);
    };
    return { release };
  }

  /** How many names have something open. */
  get size(): number {
    return this.open.size;
  }

  /** How many of a name are open. */
  count(key: string): number {
    return this.open.get(key) ?? 0;
  }

  private leave(key: string): void {
    const left = this.count(key) - 1;
    if (left > 0) this.open.set(key, left);
    else this.open.delete(key);
  }
}
