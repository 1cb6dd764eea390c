/** The Worker of the tests of KV, the rate limit binding and hybrid limiters. It runs inside workerd. */
import { bindingTasks } from "./approximate/binding-tasks.ts";
import { kvTasks } from "./approximate/kv-tasks.ts";
import type { Env } from "./approximate/spied-kv.ts";
import { workerOf } from "./tasks.ts";

export { RateLimiterDO } from "sluice/cloudflare";

export default workerOf<Env>({ ...kvTasks, ...bindingTasks });
