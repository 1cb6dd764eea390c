/**
 * State that all copies of this version in one process share: the ES module build, the CommonJS build, and copies in
 * bundles. Two circuit breakers for one Redis client, or a decision that the other build can't refund, would be wrong.
 */
import { VERSION } from "./version.ts";

/** Another version may have other classes under the same name, so each version has a registry of its own. */
const REGISTRY: unique symbol = Symbol.for(`sluice@${VERSION}`) as never;

/** Returns the shared value of this name. The first copy that asks for it creates it. */
export function shared<T>(name: string, create: () => T): T {
  const holder = globalThis as { [REGISTRY]?: Map<string, unknown> };
  let registry = holder[REGISTRY];
  if (!registry) {
    registry = new Map();
    Object.defineProperty(globalThis, REGISTRY, { value: registry });
  }
  if (!registry.has(name)) registry.set(name, create());
  return registry.get(name) as T;
}
