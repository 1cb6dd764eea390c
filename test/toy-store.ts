/** The smallest correct store without holds: a `Map` and `decide`. A mutant is this store with one part replaced. */
import { type Clock, type CompiledPolicy, type Decision, type Group, type Mode, SluiceError, type Store } from "sluice";
import { type DecideResult, decide, type PlainState } from "sluice/algorithms";

/** The stored state of one key. */
export interface StoredBucket {
  state: PlainState;
  untilMs: number;
}

/** The parts of the store that a mutant may replace. */
export interface Mutation {
  /** Decides one charge. */
  decide?: typeof decide;
  /** Returns the stored key. */
  storedKeyOf?(policy: CompiledPolicy, key: string): string;
  /** Holds the buckets. */
  buckets?: Pick<Map<string, StoredBucket>, "get" | "set" | "delete"> & { clear(): void };
  /** Runs between reading and writing a bucket, so calls can interleave. */
  pause?(): Promise<void>;
  /** Decides a group. */
  group?(charges: Group, peek: (i: number) => Decision, take: (i: number) => Decision): Decision[];
  /** TTL of a bucket in ms. */
  ttlMs?(outcome: DecideResult): number;
  /** Runs before a reset. */
  reset?(buckets: { clear(): void }): void;
  /** Whether calls fail after `dispose`. Default: true. */
  disposable?: false;
}

/** Creates the store, with the parts of `mutation` replaced. */
export function toyStore(clock: Clock, mutation: Mutation = {}): Store {
  const buckets = mutation.buckets ?? new Map<string, StoredBucket>();
  const storedKeyOf =
    mutation.storedKeyOf ?? ((policy: CompiledPolicy, key: string) => JSON.stringify([policy.id, key]));
  const step = mutation.decide ?? decide;
  let disposed = false;

  function read(policy: CompiledPolicy, key: string): StoredBucket | undefined {
    const found = buckets.get(storedKeyOf(policy, key));
    return found && found.untilMs > clock.now() ? found : undefined;
  }

  async function decideGroup(group: Group): Promise<Decision[]> {
    if (disposed) throw new SluiceError("disposed", "The toy store is disposed.");
    const states = group.map(({ policy, key }) => read(policy, key)?.state);
    if (mutation.pause) await mutation.pause();
    const peek = (i: number): Decision => {
      const charge = group[i] as Group[number];
      const cost = charge.mode === "refund" || charge.mode === "reset" ? 0 : charge.cost;
      return step(states[i], { ...charge, mode: "peek", cost }, clock.now()).decision;
    };
    const take = (i: number, mode?: Mode): Decision => {
      const charge = group[i] as Group[number];
      const outcome = step(states[i], mode ? { ...charge, mode } : charge, clock.now());
      if (outcome.changed) {
        const state = outcome.state as PlainState;
        states[i] = state;
        const untilMs = clock.now() + (mutation.ttlMs?.(outcome) ?? outcome.ttlMs);
        const storedKey = storedKeyOf(charge.policy, charge.key);
        if (state.length === 0) buckets.delete(storedKey);
        else buckets.set(storedKey, { state, untilMs });
      }
      return outcome.decision;
    };
    if (mutation.group) return mutation.group(group, peek, take);
    const peeked = group.map((_, i) => peek(i));
    if (group.length === 1 || peeked.every(({ allowed }) => allowed)) return group.map((_, i) => take(i));
    // A penalty is charged if other charges are denied, unless their cost can never fit or the group only peeks.
    const isViolation =
      group.some(({ mode }) => mode === "take") &&
      peeked.every(
        ({ allowed, retryAfterMs }, i) => allowed || (group[i]?.mode !== "penalty" && retryAfterMs !== null),
      );
    return peeked.map((decision, i) => {
      const mode = group[i]?.mode;
      if (mode === "penalty") {
        if (isViolation) take(i, "take");
        return peek(i);
      }
      // A denied charge takes nothing, but clamps state dated in the future.
      return decision.allowed || mode !== "take" ? decision : take(i);
    });
  }

  return {
    consistency: "exact",
    check(policy, _isGroup, mode) {
      if (mode !== "hold" && policy.kind === "rate") return;
      throw new SluiceError("unsupported", "The toy store supports neither holds nor penalties.");
    },
    async apply(groups) {
      const decisions: Decision[][] = [];
      for (const group of groups) {
        if (mutation.reset && group.some(({ mode }) => mode === "reset")) mutation.reset(buckets);
        decisions.push(await decideGroup(group));
      }
      return decisions;
    },
    async inspect(policy, key) {
      const found = read(policy, key);
      const [decision] = await decideGroup([{ policy, key, cost: 0, mode: "peek" }]);
      const { limit, remaining, resetAfterMs } = decision as Decision;
      return {
        policy: policy.name,
        key,
        storedKey: storedKeyOf(policy, key),
        found: found !== undefined,
        limit,
        remaining,
        resetAfterMs,
        ttlMs: found ? found.untilMs - clock.now() : null,
        raw: found ? found.state : null,
      };
    },
    async dispose() {
      disposed = mutation.disposable !== false;
    },
  };
}
