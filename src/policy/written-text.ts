/** Remembers the text that a policy was written as, which is its default name: `"1/15m"` and not `"4/h burst 1"`. */
import type { Policy } from "../core/policy.ts";

/** Keyed by the object, so that a copy with other numbers has no text. */
const texts = /* @__PURE__ */ new WeakMap<object, string>();

/** Remembers the text of a policy, and returns the policy. */
export function withText<P extends Policy>(policy: P, text: string): P {
  texts.set(policy, text);
  return policy;
}

/** The text that a policy was written as; `undefined` if it was written as an object. */
export function writtenText(policy: Policy): string | undefined {
  return texts.get(policy);
}
