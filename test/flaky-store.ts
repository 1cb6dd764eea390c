/** A store that is elsewhere, in a test's hands: it answers, fails, or keeps everybody waiting. Exact while it answers. */
import { type CallState, type Clock, type Group, memoryStore, type Store } from "sluice";

export interface FlakyStore extends Store {
  /** What happens to the next calls. */
  mode: "answer" | "fail" | "hang";
  /** How many calls have reached it. */
  calls: number;
  /** Lets everything that hangs go on, unless nobody waits for it any more. */
  release(): void;
  /** The charges that were made. */
  readonly groups: Group[];
}

export function flakyStore(clock?: Clock): FlakyStore {
  const memory = memoryStore(clock ? { clock } : {});
  let held: (() => void)[] = [];
  const reach = async <T>(answer: () => Promise<T>, waiting?: CallState): Promise<T> => {
    store.calls++;
    if (store.mode === "fail") throw new Error("connection lost");
    if (store.mode === "hang") await new Promise<void>((resolve) => held.push(resolve));
    if (waiting?.abandoned) throw new Error("nobody waits");
    return answer();
  };
  const store: FlakyStore = {
    consistency: "exact",
    mode: "answer",
    calls: 0,
    groups: [],
    apply: (groups, waiting) =>
      reach(() => {
        store.groups.push(...groups);
        return memory.apply(groups);
      }, waiting),
    inspect: (policy, key) => reach(() => memory.inspect(policy, key)),
    dispose: () => memory.dispose(),
    release() {
      for (const go of held) go();
      held = [];
    },
  };
  return store;
}
