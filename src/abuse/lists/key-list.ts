/** Lists of keys, such as those of users and of API keys. */
import { optionError } from "../../base/errors.ts";
import { andThen, type MaybePromise } from "../../base/maybe-promise.ts";
import { runSteps, type Steps } from "../../base/slices.ts";
import { hashKeys, type KeySet, type ParsedKeys, parseKeys } from "./key-set.ts";
import { LIST, type List, type ListedClient } from "./list.ts";
import { type ListOptions, parseListOptions } from "./list-options.ts";
import { LoadedList } from "./loaded-list.ts";

/**
 * A list of keys such as `user:42` or `key:acme`: an array, or a function that loads one. Keys are kept as HMAC tags. At
 * most 1 000 000 keys of 16 kinds.
 */
export function keyList(
  source: readonly string[] | (() => Promise<readonly string[]>),
  options: ListOptions = {},
): List {
  const { except: exceptions, ...settings } = parseListOptions("keyList", options, typeof source === "function");
  const except = hashedOnce(runSteps(parseKeys(exceptions, "except")));
  const { name } = settings;
  /** Looks up the client's keys in the list, one kind after the other. */
  const contains = (set: KeySet, client: ListedClient, i = 0): MaybePromise<boolean> => {
    const kind = set.kinds[i];
    if (kind === undefined) return false;
    return andThen(client.key(kind), (key) => {
      const isListed = key !== undefined && set.has(key) && !except().has(key);
      return isListed || contains(set, client, i + 1);
    });
  };
  if (typeof source === "function") {
    const loaded = new LoadedList({ ...settings, what: "keyList", load: source, build: readLoaded });
    const has = (client: ListedClient): MaybePromise<boolean> =>
      andThen(loaded.use(client.reports), (set) => set !== undefined && contains(set, client));
    return { [LIST]: { name, has } };
  }
  if (!Array.isArray(source)) {
    throw optionError("invalid-option", "source", "an array of keys, or a function that loads one");
  }
  const keys = hashedOnce(runSteps(parseKeys(source, "source")));
  return { [LIST]: { name, has: (client) => contains(keys(), client) } };
}

function* readLoaded(keys: unknown): Steps<KeySet> {
  if (!Array.isArray(keys)) {
    throw optionError("invalid-option", "source", "a function that returns a promise of an array of keys");
  }
  return yield* hashKeys(yield* parseKeys(keys, "source"));
}

/** Hashes keys at once, or at their first use: Workers have no random numbers while a module loads. */
function hashedOnce(parsed: ParsedKeys): () => KeySet {
  let pending: ParsedKeys | undefined = parsed;
  let set: KeySet | undefined;
  const hashed = (): KeySet => {
    set ??= runSteps(hashKeys(pending as ParsedKeys));
    pending = undefined;
    return set;
  };
  try {
    hashed();
  } catch {
    // At the first use.
  }
  return hashed;
}
