/** Replays recorded traffic against a policy. */

import type { CompiledPolicy } from "../core/compiled-policy.ts";
import { decide } from "../core/decide.ts";
import type { State } from "../core/state.ts";
import type { Traffic } from "./recorded-traffic.ts";

/** Counts the requests and keys that the policy would have denied, starting with full buckets. */
export function replay(traffic: Traffic, policy: CompiledPolicy): { denied: number; keysDenied: number } {
  const { keys, starts, times, costs } = traffic;
  let [denied, keysDenied] = [0, 0];
  for (const [id, key] of keys.entries()) {
    const deniedBefore = denied;
    let state: State | undefined;
    for (let i = starts[id] as number; i < (starts[id + 1] as number); i++) {
      const charge = { policy, key, cost: costs[i] as number, mode: "take" } as const;
      const result = decide(state, charge, times[i] as number);
      state = result.state;
      if (!result.decision.allowed) denied++;
    }
    if (denied > deniedBefore) keysDenied++;
  }
  return { denied, keysDenied };
}
