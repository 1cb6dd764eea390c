/** The buckets that decide while a store is unavailable. */
import { shared } from "../base/shared-state.ts";
import { originOf, type Store, type SyncStore } from "../core/store.ts";
import { memoryStore } from "../memory/memory-store.ts";

const fallbacks = /* @__PURE__ */ shared("fallbacks", () => new WeakMap<object, SyncStore>());

/** The buckets of a store's fallback. They are kept after recovery: the store may fail again. */
export function fallbackOf(store: Store): SyncStore {
  const origin = originOf(store);
  let fallback = fallbacks.get(origin);
  if (!fallback) fallbacks.set(origin, (fallback = memoryStore()));
  return fallback;
}

/** The same, if the fallback was ever used. */
export function usedFallbackOf(store: Store): SyncStore | undefined {
  return fallbacks.get(originOf(store));
}
