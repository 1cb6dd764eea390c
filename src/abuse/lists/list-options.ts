/** The options that lists of IP addresses and lists of keys share. */
import { optionError, SluiceError } from "../../base/errors.ts";
import { checkOptions, checkWhole } from "../../base/options.ts";
import { type Duration, parseDuration } from "../../base/rate.ts";

/** Options of a list. */
export interface ListOptions {
  /** How long a loaded list is used before it is loaded again, at least 1 s. Default: `"1h"`. */
  refresh?: Duration;
  /** Entries that are never matched, written like those of the list. Default: none. */
  except?: readonly string[];
  /** The list's name in events. Default: `"ipList"` or `"keyList"`. */
  name?: string;
  /** Lets a refresh finish after the response: `waitUntil` of `cloudflare:workers`. Default: none; only Workers need it. */
  waitUntil?: (promise: Promise<unknown>) => void;
}

/** Validated options. */
export interface ListSettings {
  readonly refreshMs: number;
  readonly except: readonly unknown[];
  readonly name: string;
  readonly waitUntil: ((promise: Promise<unknown>) => void) | undefined;
}

const DEFAULT_REFRESH = "1h";
/** Shorter ones would build lists all the time. */
const MIN_REFRESH_MS = 1000;
const MAX_NAME_CHARS = 100;

/** Validates the options of a list. `what` is the function that creates it, and `isLoaded` whether a function loads it. */
export function parseListOptions(what: string, options: ListOptions, isLoaded: boolean): ListSettings {
  checkOptions(what, options, ["refresh", "except", "name", "waitUntil"]);
  const { refresh, except = [], name = what, waitUntil } = options;
  if (!Array.isArray(except)) throw optionError("invalid-option", "except", "an array of entries of the list", except);
  if (typeof name !== "string" || name === "" || name.length > MAX_NAME_CHARS) {
    throw optionError("invalid-option", "name", `a non-empty string of at most ${MAX_NAME_CHARS} characters`, name);
  }
  if (waitUntil !== undefined && typeof waitUntil !== "function") {
    throw optionError("invalid-option", "waitUntil", "a function that takes a promise", waitUntil);
  }
  for (const [option, value] of Object.entries({ refresh, waitUntil })) {
    if (value === undefined || isLoaded) continue;
    const message = `${option} has no effect on a list that is not loaded. Pass a function that loads the list to ${what}.`;
    throw new SluiceError("invalid-option", message, { option, expected: "a list that is loaded by a function" });
  }
  const refreshMs = parseDuration("refresh", refresh ?? DEFAULT_REFRESH);
  checkWhole("refresh", refreshMs, MIN_REFRESH_MS, Number.MAX_SAFE_INTEGER);
  return { refreshMs: refreshMs as number, except, name, waitUntil };
}
