/** Validates the options of `defineRules` and `loadRules`. */
import { optionError, SluiceError } from "../base/errors.ts";
import { checkOptions } from "../base/options.ts";
import type { Store } from "../core/store.ts";
import type { RulesOptions } from "./rule-set-types.ts";

const OPTIONS = ["store", "prefix", "overrides", "deadlineMs", "instances", "localDenialMs", "onEvent", "observer"];

/** Throws for options that can't work. `what` is the function that they were passed to. */
export function checkRuleSetOptions(what: string, options: RulesOptions): void {
  if (what === "loadRules" && (typeof options !== "object" || options === null)) {
    const expected = 'loadRules(json, { facts: ["tenant", "plan"] })';
    const message = `loadRules needs the names of the facts that the application provides. Write ${expected}, or { facts: [] } without any.`;
    throw new SluiceError("invalid-option", message, { option: "facts", expected, received: options });
  }
  checkOptions(what, options, what === "loadRules" ? [...OPTIONS, "facts"] : OPTIONS);
  const { store, prefix, overrides } = options;
  if (store !== undefined && typeof (store as Store | null)?.apply !== "function") {
    throw optionError("invalid-option", "store", "a store, such as memoryStore() or redisStore(client)", store);
  }
  // Buckets of single patterns add a hash to it.
  if (prefix !== undefined && !(typeof prefix === "string" && /^[ -~]{1,48}$/.test(prefix))) {
    throw optionError("invalid-option", "prefix", "1 to 48 printable ASCII characters", prefix);
  }
  if (overrides !== undefined && typeof overrides !== "function") {
    throw optionError(
      "invalid-option",
      "overrides",
      "a function; write overrides of single keys into the rules",
      overrides,
    );
  }
}
