/** Notices to clients whose frames are rejected, their encodings, and the codes and reasons of close frames. */
import { monotonicMs } from "../../base/clock.ts";
import type { Frame } from "./ingress.ts";

/** The limit that was exceeded: frame size, rate, frames in flight, or open connections. */
export type LimitType = "payload" | "rate" | "inflight" | "connections";

/**
 * How the guard reacts: `"send"` a notice, `"close"` the connection, `"ban"` (close with a code that means "do not
 * reconnect"), or `"custom"`, which leaves it to `onLimitExceeded`.
 */
export type ExceededAction = "send" | "close" | "ban" | "custom";

/** A rejected frame, ping or connection. */
export interface LimitExceeded {
  /** The limit that was exceeded. */
  readonly type: LimitType;
  /** The size of the frame in bytes, its cost, or the number of frames or connections including this one. */
  readonly observed: number;
  /** The maximum of `observed`. */
  readonly limit: number;
  /** Milliseconds until it would be allowed; `null` if it never will be; absent if waiting alone does not help. */
  readonly retryAfterMs?: number | null;
  /** The id of the connection; `""` if the connection itself was rejected. */
  readonly id: string;
  /** The key that was charged. */
  readonly key: string;
  /** The action that the guard takes. */
  readonly action: ExceededAction;
}

/** A notice to a client whose frame was rejected. */
export interface Notice {
  /**
   * `RESOURCE_EXHAUSTED`: a limit was exceeded. `FAILED_PRECONDITION`: the cost is higher than the limit.
   * `INVALID_ARGUMENT`: the frame is invalid, or its cost could not be determined. `UNAVAILABLE`: the store failed.
   */
  readonly code: "RESOURCE_EXHAUSTED" | "FAILED_PRECONDITION" | "INVALID_ARGUMENT" | "UNAVAILABLE";
  /** A sentence for people. */
  readonly message: string;
  /** Whether the same frame may be accepted later. */
  readonly retryable: boolean;
  /** Milliseconds to wait before a retry, if known. */
  readonly retryAfterMs?: number;
  /** The limit that was exceeded, if one was. */
  readonly limit?: { readonly type: LimitType; readonly observed: number; readonly limit: number };
}

/**
 * Encodes a notice as a message of your protocol. Return `undefined` to send nothing. `frame` is the rejected frame; it is
 * absent for a ping.
 */
export type EncodeNotice<Message = string | Uint8Array, F = Frame> = (notice: Notice, frame?: F) => Message | undefined;

/** Encodes a notice as ws-kit's error message: `{ type: "ERROR", payload: { code, message, retryable, retryAfterMs } }`. */
export function errorEnvelope({ limit, ...notice }: Notice): string {
  return JSON.stringify({ type: "ERROR", meta: {}, payload: { ...notice, details: limit } });
}

/** Encodes a notice as a JSON-RPC 2.0 error with the id of the rejected call. Notifications, which have no id, get none. */
export function jsonRpcError({ message, limit, ...data }: Notice, frame?: Frame): string | undefined {
  const id = callIdOf(frame);
  if (id === undefined) return undefined;
  const code = data.code === "INVALID_ARGUMENT" ? -32_600 : -32_029;
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code, message, data: { ...data, details: limit } } });
}

/** Longer calls are not parsed for their id: a rejected frame must stay cheap. */
const MAX_PARSED_CALL_CHARS = 65_536;

/** Returns `null` if the id can't be read, and `undefined` if the call is a notification. */
function callIdOf(frame: Frame | undefined): string | number | null | undefined {
  if (typeof frame !== "string" || frame.length > MAX_PARSED_CALL_CHARS) return null;
  try {
    const call: unknown = JSON.parse(frame);
    if (typeof call !== "object" || call === null || Array.isArray(call)) return null;
    const { id, method } = call as { id?: unknown; method?: unknown };
    // Without a method it is a response to a call of the server, whose id the client did not choose.
    if (typeof method !== "string") return null;
    return id === undefined || typeof id === "string" || typeof id === "number" ? id : null;
  } catch {
    return null;
  }
}

/** Close codes of connections that the guard closes. */
export interface CloseCodes {
  /** For too many frames, or too many in flight. Default: 1013, "try again later". */
  rate?: number;
  /** For a frame that is too large. Default: 1009. */
  payload?: number;
  /** For clients that must not reconnect. Default: 1008. */
  ban?: number;
}

/** Close codes for sockets that accept only 1000 and private codes, as the WebSocket API of browsers does. */
export const PRIVATE_CODES: Required<CloseCodes> = { rate: 4429, payload: 4413, ban: 4403 };

const MESSAGES: Record<LimitType, string> = {
  payload: "The frame is too large.",
  rate: "Too many messages.",
  inflight: "Too many messages at once.",
  connections: "Too many connections.",
};

/** Builds the notice for a frame that exceeded a limit, or that could not be checked. */
export function limitNotice(info: LimitExceeded, unavailable: boolean): Notice {
  const { type, observed, limit, retryAfterMs } = info;
  const details = { limit: { type, observed, limit } };
  if (retryAfterMs === null) {
    return { code: "FAILED_PRECONDITION", message: "This costs more than the limit.", retryable: false, ...details };
  }
  const wait = retryAfterMs === undefined ? {} : { retryAfterMs };
  if (unavailable) return { code: "UNAVAILABLE", message: "The limit can't be checked.", retryable: true, ...wait };
  return { code: "RESOURCE_EXHAUSTED", message: MESSAGES[type], retryable: type !== "payload", ...wait, ...details };
}

/** Builds the notice for a frame that is invalid, or whose cost could not be determined. */
export function invalidNotice(message: string): Notice {
  return { code: "INVALID_ARGUMENT", message, retryable: false };
}

/** Returns the part of `retryAfterMs` that is left since the decision. `decidedAt` is a monotonic time in ms. */
export function remainingWait<Wait extends number | null | undefined>(
  retryAfterMs: Wait,
  decidedAt: number | undefined,
): Wait | number {
  if (!retryAfterMs || decidedAt === undefined) return retryAfterMs;
  return Math.max(1, Math.ceil(retryAfterMs - (monotonicMs() - decidedAt)));
}

/** Builds the reason of a close frame, at most 123 bytes. It includes the wait, because no notice is sent. */
export function closeReason({ type, retryAfterMs, action }: LimitExceeded): string {
  if (action === "ban") return JSON.stringify({ limit: type, banned: true });
  return JSON.stringify({ limit: type, ...(typeof retryAfterMs === "number" ? { retryAfterMs } : {}) });
}
