/** Collects garbage, for tests of what is retained. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Collects garbage; `undefined` where the runtime can't be asked to, as V8 can. */
export const collectGarbage: (() => void) | undefined = collector();

function collector(): (() => void) | undefined {
  try {
    setFlagsFromString("--expose-gc");
    return runInNewContext("gc");
  } catch {
    return undefined;
  }
}
