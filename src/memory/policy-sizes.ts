/** Ranks the policies of a memory store by their number of keys: a binary heap, the largest first. */

/** A policy that has keys. */
export interface Sized {
  /** Number of keys. */
  size: number;
  /** Its index in the heap. */
  place: number;
}

/** The policies that have keys. Adding or removing a key takes logarithmic time in their number. */
export class PolicySizes<Policy extends Sized> {
  private readonly heap: Policy[] = [];

  /** Number of policies that have keys. */
  get count(): number {
    return this.heap.length;
  }

  /** The policy with the most keys. */
  get largest(): Policy {
    return this.heap[0] as Policy;
  }

  /** A random policy, chosen by a number from 0 to 1. */
  pick(random: number): Policy {
    return this.heap[Math.floor(random * this.heap.length)] as Policy;
  }

  /** Counts one more key of a policy. */
  increment(policy: Policy): void {
    if (policy.size++ === 0) policy.place = this.heap.push(policy) - 1;
    this.move(policy);
  }

  /** Counts one key less, and removes a policy that has none left. */
  decrement(policy: Policy): void {
    policy.size--;
    this.move(policy);
    if (policy.size > 0) return;
    // All others have keys, so it is a leaf now: the last leaf can take its place.
    const last = this.heap.pop() as Policy;
    if (last === policy) return;
    this.heap[policy.place] = last;
    last.place = policy.place;
    this.move(last);
  }

  clear(): void {
    for (const policy of this.heap) policy.size = 0;
    this.heap.length = 0;
  }

  /** Moves a policy to where its size belongs: below larger ones and above smaller ones. */
  private move(policy: Policy): void {
    const { heap } = this;
    for (;;) {
      const { place, size } = policy;
      const parent = place > 0 ? heap[(place - 1) >> 1] : undefined;
      const [left, right] = [heap[2 * place + 1], heap[2 * place + 2]];
      const child = right && left && right.size > left.size ? right : left;
      const other = parent && parent.size < size ? parent : child;
      if (!other || (other === child && child.size <= size)) return;
      policy.place = other.place;
      other.place = place;
      heap[place] = other;
      heap[policy.place] = policy;
    }
  }
}
