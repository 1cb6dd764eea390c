/** What a client is told whose frame does not pass, and how a connection is ended. */
import { monotonicMs } from "../../core/clock.ts";
import type { Frame } from "./ingress.ts";

/** What was exceeded: the size of a frame, a rate, what is handled at once, or the number of connections. */
export type LimitType = "payload" | "rate" | "inflight" | "connections";

/** What is done about it: tell the client, close the connection, close it and say not to come back, or nothing but the hook. */
export type ExceededAction = "send" | "close" | "ban" | "custom";

/** A frame that did not pass, or a connection that was not let in. */
export interface LimitExceeded {
  /** What was exceeded. */
  readonly type: LimitType;
  /** Bytes of the frame, its cost, or how many there would be. */
  readonly observed: number;
  /** What is allowed of that. */
  readonly limit: number;
  /** Milliseconds until it would pass; `null` when it never can; absent where time alone does not help. */
  readonly retryAfterMs?: number | null;
  /** The connection; `""` of one that was not let in. */
  readonly id: string;
  /** The key that was charged. */
  readonly key: string;
  /** What is done about it. */
  readonly action: ExceededAction;
}

/** What a client is told. */
export interface Notice {
  /**
   * `RESOURCE_EXHAUSTED`: too much. `FAILED_PRECONDITION`: the cost can never fit. `INVALID_ARGUMENT`: the frame can't
   * be read, or what it costs can't be told. `UNAVAILABLE`: the store can't be asked, and that is not the client's fault.
   */
  readonly code: "RESOURCE_EXHAUSTED" | "FAILED_PRECONDITION" | "INVALID_ARGUMENT" | "UNAVAILABLE";
  readonly message: string;
  /** Whether the same frame may pass later. */
  readonly retryable: boolean;
  /** When, if that is known. */
  readonly retryAfterMs?: number;
  /** What was exceeded, if something was. */
  readonly limit?: { readonly type: LimitType; readonly observed: number; readonly limit: number };
}

/**
 * Writes a notice as a message of your protocol, or returns `undefined` where that has none. The frame is what the client
 * sent; a ping has none.
 */
export type EncodeNotice<Message = string | Uint8Array, F = Frame> = (notice: Notice, frame?: F) => Message | undefined;

/** The envelope of ws-kit: `{ type: "ERROR", payload: { code, message, retryable, retryAfterMs } }`. */
export function errorEnvelope({ limit, ...notice }: Notice): string {
  return JSON.stringify({ type: "ERROR", meta: {}, payload: { ...notice, details: limit } });
}

/** An error of JSON-RPC 2.0, with the id of the call if it can be read. A call without one is never answered. */
export function jsonRpcError({ message, limit, ...data }: Notice, frame?: Frame): string | undefined {
  const id = idOf(frame);
  if (id === undefined) return undefined;
  const code = data.code === "INVALID_ARGUMENT" ? -32_600 : -32_029;
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code, message, data: { ...data, details: limit } } });
}

/** Of calls that are longer, nobody waits for the id to be looked for. */
const SHORT = 65_536;

/** `null` of what can't be read, and `undefined` of a call that has none. */
function idOf(frame: Frame | undefined): string | number | null | undefined {
  if (typeof frame !== "string" || frame.length > SHORT) return null;
  try {
    const call: unknown = JSON.parse(frame);
    if (typeof call !== "object" || call === null || Array.isArray(call)) return null;
    const { id, method } = call as { id?: unknown; method?: unknown };
    // Of an answer to the server's own call, the id is not that of the client's.
    if (typeof method !== "string") return null;
    return id === undefined || typeof id === "string" || typeof id === "number" ? id : null;
  } catch {
    return null;
  }
}

/** The codes that connections are closed with. */
export interface CloseCodes {
  /** Too many frames, or too many at once. Default: 1013, try again later. */
  rate?: number;
  /** A frame that is too large. Default: 1009. */
  payload?: number;
  /** Do not come back. Default: 1008. */
  ban?: number;
}

/** Where a socket lets nobody but the protocol use the codes above, as in browsers. */
export const PRIVATE_CODES: Required<CloseCodes> = { rate: 4429, payload: 4413, ban: 4403 };

const MESSAGES: Record<LimitType, string> = {
  payload: "The frame is too large.",
  rate: "Too many messages.",
  inflight: "Too many messages at once.",
  connections: "Too many connections.",
};

/** What is told of a frame that exceeded something. */
export function noticeOf(info: LimitExceeded, unavailable: boolean): Notice {
  const { type, observed, limit, retryAfterMs } = info;
  const about = { limit: { type, observed, limit } };
  if (retryAfterMs === null) {
    return { code: "FAILED_PRECONDITION", message: "This costs more than the limit.", retryable: false, ...about };
  }
  const wait = retryAfterMs === undefined ? {} : { retryAfterMs };
  if (unavailable) return { code: "UNAVAILABLE", message: "The limit can't be checked.", retryable: true, ...wait };
  return { code: "RESOURCE_EXHAUSTED", message: MESSAGES[type], retryable: type !== "payload", ...wait, ...about };
}

/** What is told of a frame that can't be read, or that the application's own functions failed at. */
export function invalidNotice(message: string): Notice {
  return { code: "INVALID_ARGUMENT", message, retryable: false };
}

/** What is left of a wait since it was decided, if it was not told at once; `decidedAt` as `elapsed` tells time. */
export function waitLeft<Wait extends number | null | undefined>(
  retryAfterMs: Wait,
  decidedAt: number | undefined,
): Wait | number {
  if (!retryAfterMs || decidedAt === undefined) return retryAfterMs;
  return Math.max(1, Math.ceil(retryAfterMs - (monotonicMs() - decidedAt)));
}

/** The reason of a close frame: at most 123 bytes, with the wait that clients would find in a notice. */
export function closeReason({ type, retryAfterMs, action }: LimitExceeded): string {
  if (action === "ban") return JSON.stringify({ limit: type, banned: true });
  return JSON.stringify({ limit: type, ...(typeof retryAfterMs === "number" ? { retryAfterMs } : {}) });
}
