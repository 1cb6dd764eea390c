/** What a guard can be told. A wrong option never becomes a silent default. */

import { compilePolicy } from "../../algorithms/compile-policy.ts";
import { policyFromText } from "../../algorithms/policy-text.ts";
import { type Clock, checkedClock, systemClock } from "../../core/clock.ts";
import type { CompiledPolicy } from "../../core/compile.ts";
import { optionError, SluiceError } from "../../core/errors.ts";
import { checkOptions, checkWhole } from "../../core/options.ts";
import type { Policy } from "../../core/policy.ts";
import type { PolicyText } from "../../core/policy-text.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import { tokenBucket } from "../../core/shorthand.ts";
import { partsOf } from "../../limiter/limiter-part.ts";
import { errorReporter, type ReportError } from "./callbacks.ts";
import { bytesOf, type Frame, type Ingress } from "./ingress.ts";
import { keyPerUserOrIpPerType } from "./keys.ts";
import {
  type CloseCodes,
  type EncodeNotice,
  type ExceededAction,
  errorEnvelope,
  type LimitExceeded,
} from "./replies.ts";

/** One limit on frames. */
export interface FrameLimit<Data = unknown> {
  /** Who decides; or a function that says who does, by plan or by type: `undefined` where this limit does not apply. */
  limiter: RateLimiter | ((ingress: Ingress<Data>) => RateLimiter | undefined);
  /** The key that is charged. Default: `keyPerUserOrIpPerType`. */
  key?: (ingress: Ingress<Data>) => string;
  /** What a frame costs: a whole number; 0 is free. Default: 1. */
  cost?: (ingress: Ingress<Data>) => number;
}

/** How frames are guarded. */
export interface FrameOptions<Data = unknown, F = Frame, Message = string | Uint8Array> {
  /** Limits on frames, all or none in one step. Default: none but that of the connection. */
  limits?: FrameLimit<Data> | readonly FrameLimit<Data>[];
  /** What one connection may send, counted here before anybody else is asked. `false`: anything. Default: `"100/s"`. */
  connection?: Policy | PolicyText | false;
  /** The most bytes of a frame. Default: 1 048 576. */
  maxBytes?: number;
  /** What a frame is, told as cheaply as possible, such as `jsonType()`. What it throws at can't be read. Default: not told. */
  typeOf?: (frame: F) => string;
  /** The types that there are, which `typeOf` needs: whoever could invent some would have as many buckets. */
  types?: readonly string[] | "any";
  /** The types that are heartbeats. They have a bucket of their own and are handled as any other. Default: none. */
  heartbeats?: readonly string[];
  /** What one connection may send of heartbeats, and of pings. Default: `"2/s"` with a burst of 10. */
  heartbeat?: Policy | PolicyText;
  /** The most frames of one connection that are handled at once. Default: 100. */
  maxPending?: number;
  /** The most frames of one connection that wait for a decision or for their turn. Default: 1000. */
  maxQueued?: number;
  /** The most bytes of those, where short texts count by their characters. Default: 4 194 304, or `maxBytes` if that is more. */
  maxQueuedBytes?: number;
  /**
   * Looks at a frame that was paid for. It is not handled if this throws, or returns `false` or what a schema returns
   * that it does not fit: an object with `success: false` or with `issues`. Default: none.
   */
  validate?: (frame: F, ingress: Ingress<Data>) => unknown;
  /** What is done when something is exceeded, or a function that says so. Default: `"send"`. */
  onExceeded?: ExceededAction | ((info: Omit<LimitExceeded, "action">, ingress?: Ingress<Data>) => ExceededAction);
  /** Closes a connection at this many denied frames, none of them a minute after the one before. Default: never. */
  closeAfter?: number;
  /** The codes that connections are closed with. */
  closeCodes?: CloseCodes;
  /** Writes notices in your protocol. Default: `errorEnvelope`. */
  encode?: EncodeNotice<Message, F>;
  /**
   * Hears of each frame that did not pass, once and before anything is done, and of each connection that was refused.
   * Not awaited; what it throws goes to `onError`. Of a ping and of a connection that was refused there is no ingress.
   */
  onLimitExceeded?: (info: LimitExceeded, ingress?: Ingress<Data>) => unknown;
  /** Hears of each frame that was paid for and could not be read, or that `validate` turned down. */
  onInvalid?: (ingress: Ingress<Data>, error?: unknown) => unknown;
  /**
   * Called with errors that your functions throw and that sockets and stores fail with. Default: the first error of your
   * functions and of the store is a process warning, those of sockets are ignored, and those of handlers are unhandled
   * rejections.
   */
  onError?: (error: unknown) => unknown;
  /** For tests: the time of a connection's own buckets. Default: the system's. */
  clock?: Clock;
}

/** The options, checked. */
export interface GuardConfig<Data, F = Frame, Message = string | Uint8Array> {
  readonly limits: readonly Required<FrameLimit<Data>>[];
  readonly connection: CompiledPolicy | undefined;
  readonly heartbeat: CompiledPolicy;
  readonly maxBytes: number;
  readonly sizeOf: (frame: F, most: number) => number;
  readonly typeOf: ((frame: F) => string) | undefined;
  readonly types: ReadonlySet<string> | undefined;
  readonly heartbeats: ReadonlySet<string>;
  readonly maxPending: number;
  readonly maxQueued: number;
  readonly maxQueuedBytes: number;
  readonly validate: ((frame: F, ingress: Ingress<Data>) => unknown) | undefined;
  readonly onExceeded:
    | ExceededAction
    | ((info: Omit<LimitExceeded, "action">, ingress?: Ingress<Data>) => ExceededAction);
  readonly closeAfter: number;
  readonly closeCodes: Required<CloseCodes>;
  readonly encode: EncodeNotice<Message, F>;
  readonly onLimitExceeded: ((info: LimitExceeded, ingress?: Ingress<Data>) => unknown) | undefined;
  readonly onInvalid: ((ingress: Ingress<Data>, error?: unknown) => unknown) | undefined;
  readonly onError: ((error: unknown) => unknown) | undefined;
  /** Reports errors to `onError`, or as a process warning. */
  readonly reportError: ReportError;
  readonly clock: Clock;
}

/** The names of all options about frames. */
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
const FUNCTIONS = ["typeOf", "validate", "encode", "onLimitExceeded", "onInvalid", "onError"] as const;
const ACTIONS: readonly unknown[] = ["send", "close", "ban", "custom"];
const MOST: number = 2 ** 31 - 1;
/** A line is a list from which the first is taken, again and again. */
const MAX_QUEUED = 100_000;

/** Whether something is an action. */
export function isAction(action: unknown): action is ExceededAction {
  return ACTIONS.includes(action);
}

/** Checks the options of a guard, or refuses them by name. */
export function checkRules<Data, F extends Frame>(options: FrameOptions<Data, F>): GuardConfig<Data, F> {
  return checkRulesOf(options, bytesOf, errorEnvelope);
}

/** The same for frames of another kind. */
export function checkRulesOf<Data, F, Message>(
  options: FrameOptions<Data, F, Message>,
  sizeOf: GuardConfig<Data, F, Message>["sizeOf"],
  encode: EncodeNotice<Message, F>,
): GuardConfig<Data, F, Message> {
  for (const name of FUNCTIONS) checkFunction(name, options[name]);
  const { onExceeded = "send", closeAfter, clock } = options;
  if (typeof onExceeded !== "function" && !isAction(onExceeded)) {
    throw optionError("invalid-option", "onExceeded", "send, close, ban, custom or a function", onExceeded);
  }
  const maxBytes = checkWhole("maxBytes", options.maxBytes ?? 1_048_576, 1, MOST);
  const maxQueuedBytes = options.maxQueuedBytes ?? Math.max(4_194_304, maxBytes);
  return {
    limits: limitsOf(options.limits ?? []),
    connection: options.connection === false ? undefined : termsOf("connection", options.connection ?? "100/s"),
    heartbeat: termsOf("heartbeat", options.heartbeat ?? tokenBucket("2/s", { burst: 10 })),
    maxBytes,
    sizeOf,
    ...typesOf(options),
    maxPending: checkWhole("maxPending", options.maxPending ?? 100, 1, MOST),
    maxQueued: checkWhole("maxQueued", options.maxQueued ?? 1000, 1, MAX_QUEUED),
    maxQueuedBytes: checkWhole("maxQueuedBytes", maxQueuedBytes, maxBytes, MOST),
    validate: options.validate,
    onExceeded,
    closeAfter: closeAfter === undefined ? Number.POSITIVE_INFINITY : checkWhole("closeAfter", closeAfter, 1, MOST),
    closeCodes: closeCodesOf(options.closeCodes ?? {}),
    encode: options.encode ?? encode,
    onLimitExceeded: options.onLimitExceeded,
    onInvalid: options.onInvalid,
    onError: options.onError,
    reportError: errorReporter(options.onError),
    clock: clock === undefined ? systemClock() : checkedClock(clock),
  };
}

function typesOf<Data, F, Message>({
  typeOf,
  types,
  heartbeats = [],
}: FrameOptions<Data, F, Message>): Pick<GuardConfig<Data, F, Message>, "typeOf" | "types" | "heartbeats"> {
  checkNames("heartbeats", heartbeats);
  if (typeOf === undefined) {
    const idle = types === undefined ? (heartbeats.length > 0 ? "heartbeats" : undefined) : "types";
    if (idle) throw optionError("invalid-option", "typeOf", `a function that tells the type of a frame, for ${idle}`);
    return { typeOf, types: undefined, heartbeats: new Set() };
  }
  if (types === undefined) {
    const expected = 'the types that there are beside typeOf, so that nobody has a bucket by inventing one; or "any"';
    throw optionError("invalid-option", "types", expected);
  }
  if (types === "any") return { typeOf, types: undefined, heartbeats: new Set(heartbeats) };
  checkNames("types", types);
  return { typeOf, types: new Set([...types, ...heartbeats]), heartbeats: new Set(heartbeats) };
}

function checkNames(option: string, names: unknown): void {
  if (Array.isArray(names) && names.every((name) => typeof name === "string")) return;
  throw optionError("invalid-option", option, "a list of names", names);
}

function closeCodesOf(codes: CloseCodes): Required<CloseCodes> {
  checkOptions("closeCodes", codes, ["rate", "payload", "ban"]);
  const { rate = 1013, payload = 1009, ban = 1008 } = codes;
  for (const [name, code] of Object.entries({ rate, payload, ban })) {
    checkWhole(`closeCodes.${name}`, code, 1000, 4999);
    // These are never sent: they say that there was no code or no close, or mean nothing yet.
    if (code === 1004 || code === 1005 || code === 1006 || (code >= 1015 && code < 3000)) {
      throw optionError("invalid-option", `closeCodes.${name}`, "a code that can be sent, such as 1013 or 4000", code);
    }
  }
  return { rate, payload, ban };
}

function limitsOf<Data>(limits: FrameLimit<Data> | readonly FrameLimit<Data>[]): Required<FrameLimit<Data>>[] {
  const list = Array.isArray(limits) ? (limits as readonly FrameLimit<Data>[]) : [limits as FrameLimit<Data>];
  return list.map((limit) => {
    if (isLimiter(limit)) throw optionError("invalid-option", "limits", "{ limiter } around the limiter", limit);
    checkOptions("limits", limit, ["limiter", "key", "cost"]);
    const { limiter, key = keyPerUserOrIpPerType, cost = one } = limit;
    if (typeof limiter !== "function") {
      if (!isLimiter(limiter)) {
        throw optionError("invalid-limiter", "limiter", "a limiter, or a function that returns one", limiter);
      }
      // Several in one step need what stands behind them.
      if (list.length > 1) partsOf(limiter);
    }
    checkFunction("key", key);
    checkFunction("cost", cost);
    return { limiter, key, cost };
  });
}

/** Whether something has what is used of a limiter. */
export function isLimiter(limiter: unknown): limiter is RateLimiter {
  const { consume, getPolicy } = (limiter ?? {}) as Partial<RateLimiter>;
  return typeof consume === "function" && typeof getPolicy === "function";
}

/** What a frame costs unless somebody says otherwise. */
function one(): number {
  return 1;
}

/** What is wrong with a policy is told under the name of the option that holds it. */
function termsOf(option: string, policy: Policy | PolicyText): CompiledPolicy {
  if ((typeof policy !== "string" && typeof policy !== "object") || isLimiter(policy)) {
    throw optionError("invalid-option", option, 'a policy or a rate such as "100/s", and not a limiter', policy);
  }
  const resolved = typeof policy === "string" ? policyFromText(option, policy) : policy;
  try {
    for (const name of ["share", "prefix"] as const) {
      if (resolved[name] === undefined) continue;
      throw optionError("invalid-option", name, "nothing: the bucket belongs to one connection", resolved[name]);
    }
    return compilePolicy(resolved);
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    throw optionError(error.code, `${option}.${error.option}`, error.expected, error.received);
  }
}

/** Refuses what is there and is not a function. */
export function checkFunction(name: string, value: unknown): void {
  if (value === undefined || typeof value === "function") return;
  throw optionError("invalid-option", name, "a function", value);
}
