/** A remote store for tests that decides, fails or hangs on demand. */
import { type CallState, type Clock, type Group, memoryStore, type Store } from "sluice";

export interface FlakyStore extends Store {
  /** Behaviour of the following calls. `lose`: decides, but the reply is lost. */
  mode: "decide" | "fail" | "hang" | "lose";
  /** Number of calls received. */
  calls: number;
  /** Continues hanging calls. Abandoned ones are rejected. */
  release(): void;
  /** The groups applied so far. */
  readonly groups: Group[];
}

export function flakyStore(clock?: Clock): FlakyStore {
  const memory = memoryStore(clock ? { clock } : {});
  let hanging: (() => void)[] = [];
  const reach = async <T>(decide: () => Promise<T>, call?: CallState): Promise<T> => {
    store.calls++;
    if (store.mode === "fail") throw new Error("connection lost");
    if (store.mode === "hang") await new Promise<void>((resolve) => hanging.push(resolve));
    if (call?.abandoned) throw new Error("abandoned call");
    const isLost = store.mode === "lose";
    const reply = await decide();
    if (isLost) throw new Error("connection lost");
    return reply;
  };
  const store: FlakyStore = {
    consistency: "exact",
    mode: "decide",
    calls: 0,
    groups: [],
    apply: (groups, call) =>
      reach(() => {
        store.groups.push(...groups);
        return memory.apply(groups);
      }, call),
    inspect: (policy, key) => reach(() => memory.inspect(policy, key)),
    dispose: () => memory.dispose(),
    release() {
      for (const resume of hanging) resume();
      hanging = [];
    },
  };
  return store;
}
