/** The smallest right store: a `Map` and `decide`. Each planted bug is this store with one thing wrong. */
import { type Clock, type CompiledPolicy, type Decision, type Group, SluiceError, type Store } from "sluice";
import { type DecideResult, decide } from "sluice/algorithms";

/** What is kept for one key. */
export interface Kept {
  state: readonly number[];
  untilMs: number;
}

/** What a planted bug may put in the place of the right thing. */
export interface Flaws {
  /** How one charge is decided. */
  decide?: typeof decide;
  /** How a bucket is named. */
  nameOf?(policy: CompiledPolicy, key: string): string;
  /** Where buckets are kept. */
  kept?: Pick<Map<string, Kept>, "get" | "set" | "delete"> & { clear(): void };
  /** Lets other calls in between the reading and the writing of a bucket. */
  pause?(): Promise<void>;
  /** How a group is decided. */
  group?(charges: Group, peek: (i: number) => Decision, take: (i: number) => Decision): Decision[];
  /** How long a bucket is kept. */
  ttlMs?(outcome: DecideResult): number;
  /** What `reset` does. */
  reset?(kept: { clear(): void }): void;
  /** What `dispose` does to later calls. */
  disposable?: false;
}

export function toyStore(clock: Clock, flaws: Flaws = {}): Store {
  const kept = flaws.kept ?? new Map<string, Kept>();
  const nameOf = flaws.nameOf ?? ((policy: CompiledPolicy, key: string) => JSON.stringify([policy.id, key]));
  const step = flaws.decide ?? decide;
  let disposed = false;

  function read(policy: CompiledPolicy, key: string): Kept | undefined {
    const found = kept.get(nameOf(policy, key));
    return found && found.untilMs > clock.now() ? found : undefined;
  }

  async function decideGroup(group: Group): Promise<Decision[]> {
    if (disposed) throw new SluiceError("disposed", "The toy store is disposed.");
    const states = group.map(({ policy, key }) => read(policy, key)?.state);
    if (flaws.pause) await flaws.pause();
    const peek = (i: number): Decision => {
      const charge = group[i] as Group[number];
      const cost = charge.mode === "take" || charge.mode === "peek" ? charge.cost : 0;
      return step(states[i], { ...charge, mode: "peek", cost }, clock.now()).decision;
    };
    const take = (i: number): Decision => {
      const charge = group[i] as Group[number];
      const outcome = step(states[i], charge, clock.now());
      if (outcome.changed) {
        const untilMs = clock.now() + (flaws.ttlMs?.(outcome) ?? outcome.ttlMs);
        const name = nameOf(charge.policy, charge.key);
        if (outcome.state.length === 0) kept.delete(name);
        else kept.set(name, { state: outcome.state, untilMs });
      }
      return outcome.decision;
    };
    if (flaws.group) return flaws.group(group, peek, take);
    const looks = group.map((_, i) => peek(i));
    if (group.length === 1 || looks.every(({ allowed }) => allowed)) return group.map((_, i) => take(i));
    // What does not fit takes nothing; it heals a state from the future.
    return looks.map((look, i) => (look.allowed || group[i]?.mode !== "take" ? look : take(i)));
  }

  return {
    consistency: "exact",
    async apply(groups) {
      const decisions: Decision[][] = [];
      for (const group of groups) {
        if (flaws.reset && group.some(({ mode }) => mode === "reset")) flaws.reset(kept);
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
        storedKey: nameOf(policy, key),
        found: found !== undefined,
        limit,
        remaining,
        resetAfterMs,
        ttlMs: found ? found.untilMs - clock.now() : null,
        raw: found ? found.state : null,
      };
    },
    async dispose() {
      disposed = flaws.disposable !== false;
    },
  };
}
