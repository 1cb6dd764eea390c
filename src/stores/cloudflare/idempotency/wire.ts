/** The calls that a Worker sends to an `IdempotencyDO` by RPC, and its replies. */
import { optionError, SluiceError, show } from "../../../base/errors.ts";
import { checkDuration, checkId, checkTimes, MAX_BODY_BYTES } from "../../../idempotency/check-input.ts";
import type { BeginResult } from "../../../idempotency/idempotency-store.ts";

/**
 * Version of the calls and replies. Increase it with every change of their shape: while a deployment rolls out, a Worker
 * of one version calls objects of another.
 */
export const PROTOCOL_VERSION = 2;

/** An entry and the request that claims or owns it. */
export interface EntryCall {
  readonly version: number;
  /** Stored name of the entry. */
  readonly entry: string;
  readonly owner: string;
}

/** Claims an entry. */
export interface BeginCall extends EntryCall {
  readonly fingerprint: string;
  readonly leaseMs: number;
  readonly ttlMs: number;
}

/** Extends a lease. */
export interface RenewCall extends EntryCall {
  readonly leaseMs: number;
}

/** Stores a response. */
export interface CompleteCall extends EntryCall {
  /** The encoded response. */
  readonly response: string;
  readonly ttlMs: number;
}

/** Reads the response to the request with a fingerprint. */
export interface ReadCall extends Omit<EntryCall, "owner"> {
  readonly fingerprint: string;
}

/** The reply to a `BeginCall`. */
export type BeginReply = { readonly version: number } & BeginResult;

/** The reply to a `ReadCall`. */
export interface ReadReply {
  readonly version: number;
  /** The encoded response; `null` if there is none. */
  readonly response: string | null;
}

/** The reply to the other calls. */
export interface HeldReply {
  readonly version: number;
  /** Whether the owner still had its claim. */
  readonly held: boolean;
}

const ENTRY_NAME = /^i1:\{[0-9a-f]{32}\}$/;
/** Maximum length of an encoded response: a body as base64, and its head. */
const MAX_RESPONSE_CHARS = 2 * MAX_BODY_BYTES;

/** Throws unless the call is of this version. Every Worker with a binding to the object can call it. */
export function checkCall<C extends EntryCall>(call: C): C {
  checkEntry(call);
  checkId("owner", call.owner);
  return call;
}

/** Throws unless the call can read a response. */
export function checkReadCall(call: ReadCall): ReadCall {
  checkEntry(call);
  checkId("fingerprint", call.fingerprint);
  return call;
}

function checkEntry(call: Omit<EntryCall, "owner">): void {
  const { version, entry } = (call ?? {}) as Partial<EntryCall>;
  if (version !== PROTOCOL_VERSION) {
    throw new SluiceError(
      "invalid-option",
      `The Durable Object speaks protocol ${PROTOCOL_VERSION}, but the Worker sent ${show(version)}. Deploy both from one sluice version.`,
      { option: "version", expected: String(PROTOCOL_VERSION), received: version },
    );
  }
  if (typeof entry !== "string" || !ENTRY_NAME.test(entry)) {
    throw optionError("invalid-key", "entry", "the stored name of an entry");
  }
}

/** Throws unless the call can claim an entry. */
export function checkBeginCall(call: BeginCall): BeginCall {
  checkId("fingerprint", checkCall(call).fingerprint);
  checkTimes(call);
  return call;
}

/** Throws unless the call can store a response. */
export function checkCompleteCall(call: CompleteCall): CompleteCall {
  const { response, ttlMs } = checkCall(call);
  checkDuration("ttlMs", ttlMs);
  if (typeof response === "string" && response.length <= MAX_RESPONSE_CHARS) return call;
  throw optionError("invalid-option", "response", `a text of at most ${MAX_RESPONSE_CHARS} characters`);
}

/** Returns the reply, unless it is one of another version. */
export function checkReply<R extends { readonly version: number }>(reply: R): R {
  const version: unknown = (reply as R | undefined)?.version;
  if (version === PROTOCOL_VERSION) return reply;
  throw new SluiceError(
    "store-unavailable",
    `The Worker speaks protocol ${PROTOCOL_VERSION}, but the Durable Object replied with ${show(version)}. Deploy both from one sluice version.`,
    { option: "version", expected: String(PROTOCOL_VERSION), received: version },
  );
}
