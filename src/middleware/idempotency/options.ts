/** The options of every `idempotent`, whichever server it is for, and their validation. */
import { optionError, SluiceError, show } from "../../base/errors.ts";
import type { MaybePromise } from "../../base/maybe-promise.ts";
import { checkOptions, checkWhole } from "../../base/options.ts";
import { type Duration, durationText, parseDuration } from "../../base/rate.ts";
import type { OnEvent } from "../../core/events.ts";
import type { ObserverLike } from "../../core/observer.ts";
import type { Policy } from "../../core/policy.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import type { Identity } from "../../http/identity/client-key.ts";
import { MAX_BODY_BYTES } from "../../idempotency/check-input.ts";
import type { IdempotencyStore } from "../../idempotency/idempotency-store.ts";
import type { PolicyText } from "../../policy/text-type.ts";
import { deadlineOf, withDeadlines } from "../gate/callback-deadlines.ts";
import type { HandlerArgs } from "../gate/request-reader.ts";
import { DEFAULT_STORED_HEADERS, isNeverStored, isStoredByDefault } from "./stored-response.ts";

/** The options of every `idempotent`. */
export interface IdempotencyOptions<Args extends HandlerArgs> {
  /** Where responses are stored. */
  store: IdempotencyStore;
  /** Returns the identity that owns the keys. Default: the user or API key that `identity` has verified, never an IP address. */
  scope?: (...args: Args) => MaybePromise<string | undefined>;
  /** How clients are identified, as in `rateLimit`: `jwt` or `apiKey` is the scope. Default: none. */
  identity?: Identity;
  /** The request header with the key. Default: `"idempotency-key"`. */
  header?: string;
  /** The methods that are handled. Default: `["POST", "PATCH"]`. */
  methods?: readonly string[];
  /** Whether requests without a key are rejected with 400. Default: false. */
  required?: boolean;
  /** Returns what makes two payloads equal. Default: method, path, query, content type and body. */
  fingerprint?: (...args: Args) => MaybePromise<string | Uint8Array>;
  /** How long a response is stored, in ms or as text. Default: `"24h"`. */
  ttl?: Duration;
  /** How long a claim is valid without renewal, which happens while the handler runs. Default: `"30s"`. */
  lease?: Duration;
  /** How long a retry waits for a request in progress before it gets a 409; at most 100 of a scope wait at once. Default: 0. */
  wait?: Duration;
  /** The longest response body that is stored, in bytes. Default: 65 536. */
  maxBodyBytes?: number;
  /**
   * The response headers that are stored. Default: content-type, content-language, content-encoding, location, link, etag,
   * last-modified and cache-control.
   */
  storedHeaders?: readonly string[];
  /** Whether a response with this status is stored. Default: all but 401, 403, 408, 425, 429, 499, 502, 503 and 504. */
  shouldStore?: (status: number) => boolean;
  /** The limit on replays, conflicts and reused keys per scope, in memory, or a limiter of your own. Default: `"60/m"`. */
  replayLimit?: Policy | PolicyText | RateLimiter;
  /**
   * What to do while the store is unavailable: reject with 503 (`"closed"`), run the handler without idempotency
   * (`"open"`), or pass the error to the server (`"throw"`). Default: `"closed"`.
   */
  onStoreError?: "closed" | "open" | "throw";
  /** Maximum time to wait for the store, in ms or as text. Default: 250; on Durable Objects 1000. */
  deadlineMs?: number | string;
  /** How long a promise of `scope`, `fingerprint` or `identity.apiKey.verify` may stay pending, in ms or as text. Default: 5000. */
  callbackDeadlineMs?: Duration;
  /** The URL of your documentation, sent as the `type` of problems. Default: `"about:blank"`. */
  docs?: string;
  /** Called with `response-not-stored`, `lease-lost`, `evicted`, `store-down`, `store-up`, `degraded` and warnings. Default: process warnings. */
  onEvent?: OnEvent;
  /** Counts replays and conflicts, and reports events: the result of `createObserver`. Default: none. */
  observer?: ObserverLike;
}

/** Options that are validated and complete. */
export interface IdempotencyConfig<Args extends HandlerArgs>
  extends Omit<
    Required<IdempotencyOptions<Args>>,
    "scope" | "identity" | "fingerprint" | "onEvent" | "observer" | "methods" | "callbackDeadlineMs"
  > {
  readonly scope: IdempotencyOptions<Args>["scope"];
  readonly identity: Identity | undefined;
  readonly fingerprint: IdempotencyOptions<Args>["fingerprint"];
  readonly onEvent: OnEvent | undefined;
  readonly observer: ObserverLike | undefined;
  readonly methods: ReadonlySet<string>;
  readonly storedHeaders: readonly string[];
  readonly ttl: number;
  readonly lease: number;
  readonly wait: number;
  readonly deadlineMs: number;
}

const KNOWN = [
  "store",
  "scope",
  "identity",
  "header",
  "methods",
  "required",
  "fingerprint",
  "ttl",
  "lease",
  "wait",
  "maxBodyBytes",
  "storedHeaders",
  "shouldStore",
  "replayLimit",
  "onStoreError",
  "deadlineMs",
  "callbackDeadlineMs",
  "docs",
  "onEvent",
  "observer",
];
const HINTS = {
  key: "Use scope instead: the function returns the identity that owns the keys.",
  onError: "Errors go to the server's error handler. Use onEvent for events of the store.",
};
const FUNCTIONS = ["scope", "fingerprint", "shouldStore", "onEvent"] as const;
const STORE_METHODS = ["begin", "read", "renew", "complete", "release"] as const;
/** Methods without an effect. PUT and DELETE are idempotent as well, but their responses may be worth a replay. */
const SAFE_METHODS = ["GET", "HEAD", "OPTIONS", "TRACE"];
const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/;
const DAY_MS = 86_400_000;
const MAX_LEASE_MS = DAY_MS;
const MAX_TTL_MS = 366 * DAY_MS;
const MAX_WAIT_MS = 600_000;
const MAX_DEADLINE_MS = 3_600_000;
const MAX_DOCS_CHARS = 2048;

/** Validates the options, and fills in the defaults. */
export function parseIdempotencyOptions<Args extends HandlerArgs>(
  options: IdempotencyOptions<Args>,
): IdempotencyConfig<Args> {
  checkOptions("idempotent", options, KNOWN, HINTS);
  const { store } = options;
  checkStore(store);
  for (const name of FUNCTIONS) {
    const given: unknown = options[name];
    if (given !== undefined && typeof given !== "function")
      throw optionError("invalid-option", name, "a function", given);
  }
  const lease = durationOf("lease", options.lease ?? "30s", 3, MAX_LEASE_MS);
  const ttl = durationOf("ttl", options.ttl ?? "24h", 1, MAX_TTL_MS);
  if (ttl < 2 * lease) {
    const expected = `at least twice the lease ("${durationText(lease)}")`;
    const details = { option: "ttl", expected, received: options.ttl };
    throw new SluiceError("invalid-option", `ttl: must be ${expected}.`, details);
  }
  const { onStoreError = "closed", required = false, docs = "about:blank" } = options;
  if (!["closed", "open", "throw"].includes(onStoreError)) {
    throw optionError("invalid-option", "onStoreError", "one of closed, open, throw", onStoreError);
  }
  if (typeof required !== "boolean") throw optionError("invalid-option", "required", "a boolean", required);
  if (typeof docs !== "string" || docs === "" || docs.length > MAX_DOCS_CHARS) {
    throw optionError("invalid-option", "docs", "a URL", docs);
  }
  const { scope, identity, fingerprint } = options;
  const withDeadline = deadlineOf(options);
  return {
    store,
    scope: scope && ((...args) => withDeadline("scope", scope(...args))),
    identity: identity && withDeadlines({ identity }, withDeadline).identity,
    fingerprint: fingerprint && ((...args) => withDeadline("fingerprint", fingerprint(...args))),
    onEvent: options.onEvent,
    observer: options.observer,
    header: headerName("header", options.header ?? "idempotency-key"),
    methods: methodsOf(options.methods ?? ["POST", "PATCH"]),
    required,
    ttl,
    lease,
    wait: durationOf("wait", options.wait ?? 0, 0, MAX_WAIT_MS),
    maxBodyBytes: checkWhole("maxBodyBytes", options.maxBodyBytes ?? 65_536, 0, MAX_BODY_BYTES),
    storedHeaders: storedHeadersOf(options.storedHeaders ?? DEFAULT_STORED_HEADERS),
    shouldStore: options.shouldStore ?? isStoredByDefault,
    replayLimit: options.replayLimit ?? "60/m",
    onStoreError,
    deadlineMs: durationOf("deadlineMs", options.deadlineMs ?? store.deadlineMs ?? 250, 1, MAX_DEADLINE_MS),
    docs,
  };
}

function checkStore(store: unknown): void {
  const expected = "an idempotency store, such as memoryIdempotencyStore() of sluice/idempotency";
  if (store === undefined) {
    const message = "store: missing; for one process, use memoryIdempotencyStore().";
    throw new SluiceError("invalid-option", message, { option: "store", expected });
  }
  const members = (store ?? {}) as Partial<IdempotencyStore>;
  if (STORE_METHODS.every((name) => typeof members[name] === "function")) return;
  throw optionError("invalid-option", "store", expected, store);
}

function durationOf(option: string, given: unknown, min: number, max: number): number {
  return checkWhole(option, parseDuration(option, given), min, max);
}

function headerName(option: string, name: unknown): string {
  if (typeof name === "string" && TOKEN.test(name)) return name.toLowerCase();
  throw optionError("invalid-option", option, 'the name of a header, such as "idempotency-key"', name);
}

function methodsOf(methods: unknown): ReadonlySet<string> {
  const isList = Array.isArray(methods) && methods.length > 0;
  if (!isList || !methods.every((method) => typeof method === "string" && TOKEN.test(method))) {
    throw optionError("invalid-option", "methods", 'a list of methods, such as ["POST", "PATCH"]', methods);
  }
  const names = methods.map((method: string) => method.toUpperCase());
  const safe = names.find((method) => SAFE_METHODS.includes(method));
  if (safe !== undefined) {
    const message = `methods: ${show(safe)} is already idempotent; list methods such as POST and PATCH.`;
    throw new SluiceError("invalid-option", message, { option: "methods", expected: "POST, PATCH", received: safe });
  }
  return new Set(names);
}

function storedHeadersOf(names: unknown): readonly string[] {
  if (!Array.isArray(names)) throw optionError("invalid-option", "storedHeaders", "a list of header names", names);
  return names.map((given) => {
    const name = headerName("storedHeaders", given);
    if (!isNeverStored(name)) return name;
    const message = `storedHeaders: ${show(name)} is never stored, because it belongs to one response, connection or client.`;
    throw new SluiceError("invalid-option", message, { option: "storedHeaders", expected: "other headers" });
  });
}
