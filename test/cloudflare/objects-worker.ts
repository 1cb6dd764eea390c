/** The Worker of the Durable Object tests. It runs inside workerd. */
import { algorithms } from "sluice/algorithms";
import { addStrikeLog } from "../list-state/strike-log.ts";
import { abuseTasks } from "./objects/abuse-tasks.ts";
import { inputTasks } from "./objects/input-tasks.ts";
import { lawTasks } from "./objects/law-tasks.ts";
import { limiterTasks } from "./objects/limiter-tasks.ts";
import type { Env } from "./objects/namespace.ts";
import { rulesTasks } from "./objects/rules-tasks.ts";
import { storageTasks } from "./objects/storage-tasks.ts";
import { workerOf } from "./tasks.ts";

// A test-only algorithm with list state, beside those of the package.
addStrikeLog(algorithms);

export { Billed, Objects, Racy } from "./objects/classes.ts";

export default workerOf<Env>({
  ...lawTasks,
  ...storageTasks,
  ...limiterTasks,
  ...inputTasks,
  ...rulesTasks,
  ...abuseTasks,
});
