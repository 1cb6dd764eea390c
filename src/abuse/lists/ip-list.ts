/** Lists of IP addresses and ranges. */
import { optionError, SluiceError } from "../../base/errors.ts";
import { andThen, type MaybePromise } from "../../base/maybe-promise.ts";
import { runSteps, type Steps } from "../../base/slices.ts";
import { type AddressSet, readArray, readText } from "./address-set.ts";
import { LIST, type List, type ListedClient } from "./list.ts";
import { type ListOptions, parseListOptions } from "./list-options.ts";
import { LoadedList } from "./loaded-list.ts";

/**
 * A list of IP addresses and ranges: an array, text with one range per line (`#` and `;` start a comment), or a function
 * that loads such text. At most 1 000 000 ranges and 64 Mi characters.
 */
export function ipList(source: readonly string[] | string | (() => Promise<string>), options: ListOptions = {}): List {
  const { except: exceptions, ...settings } = parseListOptions("ipList", options, typeof source === "function");
  const except = runSteps(readArray(exceptions, "except"));
  const { name } = settings;
  /** Looks up the client's address in the list, if the address is known. */
  const listOf = (use: (client: ListedClient) => MaybePromise<AddressSet | undefined>): List => ({
    [LIST]: {
      name,
      has(client) {
        const address = client.address();
        if (!address) return false;
        return andThen(use(client), (set) => set?.has(address) === true && !except.has(address));
      },
    },
  });
  if (typeof source === "function") {
    const loaded = new LoadedList({ ...settings, what: "ipList", load: source, build: readLoaded });
    return listOf((client) => loaded.use(client.reports));
  }
  const set = runSteps(readSource(source));
  return listOf(() => set);
}

function readSource(source: unknown): Steps<AddressSet> {
  if (typeof source === "string") return readText(source);
  if (Array.isArray(source)) return readArray(source, "source");
  throw optionError("invalid-option", "source", "an array of ranges, text, or a function that loads text", source);
}

function readLoaded(text: unknown): Steps<AddressSet> {
  if (typeof text !== "string") {
    throw optionError("invalid-option", "source", "a function that returns a promise of text", text);
  }
  const steps = readText(text);
  // An empty response is a failure more often than an empty list.
  if (text.trim() !== "") return steps;
  const message = "ipList: the loaded text is empty. If the list is meant to be empty, return a comment such as #.";
  throw new SluiceError("invalid-option", message, { option: "source", expected: "text with one range per line" });
}
