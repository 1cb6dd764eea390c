/** The options of a guard that concern frames. */
import type { Clock } from "../../base/clock.ts";
import type { Policy } from "../../core/policy.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import type { PolicyText } from "../../policy/text-type.ts";
import type { Frame, Ingress } from "./ingress.ts";
import type { CloseCodes, EncodeNotice, ExceededAction, LimitExceeded } from "./replies.ts";

/** One limit on frames. */
export interface FrameLimit<Data = unknown> {
  /** The limiter, or a function that selects one by plan or type and returns `undefined` if the limit does not apply. */
  limiter: RateLimiter | ((ingress: Ingress<Data>) => RateLimiter | undefined);
  /** Returns the key to charge. Default: `keyPerUserOrIpPerType`. */
  key?: (ingress: Ingress<Data>) => string;
  /** Returns the cost of a frame, a whole number; 0 is free. Default: 1. */
  cost?: (ingress: Ingress<Data>) => number;
}

/** Limits on frames, and the reaction to frames that exceed them. */
export interface FrameOptions<Data = unknown, F = Frame, Message = string | Uint8Array> {
  /** Limits on frames. Several are charged together, all or none. Default: only the bucket of the connection. */
  limits?: FrameLimit<Data> | readonly FrameLimit<Data>[];
  /** Rate limit of one connection, checked in memory before `limits`. `false` disables it. Default: `"100/s"`. */
  connection?: Policy | PolicyText | false;
  /** Maximum size of a frame in bytes. Default: 1 048 576. */
  maxBytes?: number;
  /** Returns the type of a frame, such as `jsonType()`. If it throws, the frame is invalid. Default: frames have no type. */
  typeOf?: (frame: F) => string;
  /** The known types, required with `typeOf`: a client that could invent types would get a bucket for each. */
  types?: readonly string[] | "any";
  /** Types that are heartbeats. They are charged to `heartbeat` instead of `connection` and `limits`. Default: none. */
  heartbeats?: readonly string[];
  /** Rate limit of heartbeats and pings of one connection. Default: `"2/s"` with a burst of 10. */
  heartbeat?: Policy | PolicyText;
  /** Maximum number of frames of one connection whose handlers are running. Default: 100. */
  maxPending?: number;
  /** Maximum number of frames of one connection that wait for a decision or for earlier frames. Default: 1000. */
  maxQueued?: number;
  /** Maximum size of those frames in bytes; short text counts by characters. Default: 4 194 304, or `maxBytes` if higher. */
  maxQueuedBytes?: number;
  /**
   * Validates a frame after it was charged. The frame is rejected if this throws, returns `false`, or returns a failed
   * schema result: an object with `success: false` or with `issues`. Default: no validation.
   */
  validate?: (frame: F, ingress: Ingress<Data>) => unknown;
  /** The reaction to a frame that exceeds a limit, or a function that returns it. Default: `"send"`. */
  onExceeded?: ExceededAction | ((info: Omit<LimitExceeded, "action">, ingress?: Ingress<Data>) => ExceededAction);
  /** Number of denied frames after which the connection is closed. A minute without one resets it. Default: never. */
  closeAfter?: number;
  /** Close codes. Defaults: 1013 for `rate`, 1009 for `payload`, 1008 for `ban`. */
  closeCodes?: CloseCodes;
  /** Encodes notices in your protocol. Default: `errorEnvelope`. */
  encode?: EncodeNotice<Message, F>;
  /**
   * Called once for each rejected frame, ping or connection, before the guard reacts. Not awaited; its errors are passed to
   * `onError`. `ingress` is absent for pings and connections. Default: none.
   */
  onLimitExceeded?: (info: LimitExceeded, ingress?: Ingress<Data>) => unknown;
  /** Called for each frame that was charged and is invalid, with the error or result of `validate`. Default: none. */
  onInvalid?: (ingress: Ingress<Data>, error?: unknown) => unknown;
  /**
   * Called with errors of callbacks, sockets, stores and handlers. Default: the first error of callbacks and of the store is
   * a process warning, socket errors are ignored, and handler errors are unhandled rejections.
   */
  onError?: (error: unknown) => unknown;
  /** For tests: the clock of `connection`, `heartbeat` and `closeAfter`. Default: the system clock. */
  clock?: Clock;
}

/** The names of all frame options. */
export const FRAME_OPTIONS: readonly (keyof FrameOptions)[] = [
  "limits",
  "connection",
  "maxBytes",
  "typeOf",
  "types",
  "heartbeats",
  "heartbeat",
  "maxPending",
  "maxQueued",
  "maxQueuedBytes",
  "validate",
  "onExceeded",
  "closeAfter",
  "closeCodes",
  "encode",
  "onLimitExceeded",
  "onInvalid",
  "onError",
  "clock",
];
