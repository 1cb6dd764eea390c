/** Tasks that use penalties on Durable Objects. */
import { durableObjectStore } from "sluice/cloudflare";
import { runTable } from "../../abuse/penalty-table.ts";
import type { Tasks } from "../tasks.ts";
import { type Env, FreshNamespace, fakeTime, realNow, type Shards } from "./namespace.ts";

export const abuseTasks: Tasks<Env> = {
  /** Sends the requests of the table of penalties. */
  async penaltyTable({ OBJECTS }, { shards }: { shards: Shards }) {
    const advance = fakeTime();
    const store = durableObjectStore(new FreshNamespace(OBJECTS), { shards });
    const seen = await runTable(store, advance);
    Date.now = realNow;
    return seen;
  },
};
