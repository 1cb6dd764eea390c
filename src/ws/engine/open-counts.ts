/** How many connections are open, by address and by user, in this process. */

/** One count that a connection is part of. */
export interface OpenCount {
  readonly key: string;
  readonly limit: number;
}

/** A place in a count, to be given back once; or, where there is none, how many there would be. */
export type Entry =
  | { readonly release: () => void; readonly observed?: undefined }
  | { readonly release?: undefined; readonly observed: number };

/** Counts open connections. */
export interface Counting {
  enter(count: OpenCount): Entry;
}

/** A name that nobody has open is not kept. */
export class OpenCounts implements Counting {
  private readonly open: Map<string, number> = new Map();

  enter({ key, limit }: OpenCount): Entry {
    const observed = this.count(key) + 1;
    if (observed > limit) return { observed };
    this.open.set(key, observed);
    let isOpen = true;
    const release = () => {
      if (isOpen) this.leave(key);
      isOpen = false;
    };
    return { release };
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
