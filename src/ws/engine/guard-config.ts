/** Parses the options of a guard. An invalid option throws instead of becoming a silent default. */

import { type Clock, checkedClock, systemClock } from "../../base/clock.ts";
import { optionError, SluiceError } from "../../base/errors.ts";
import { checkOptions, checkWhole } from "../../base/options.ts";
import type { CompiledPolicy } from "../../core/compiled-policy.ts";
import { partsOf } from "../../core/part-charges.ts";
import type { Policy } from "../../core/policy.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import { OpenHolds } from "../../holds/open-holds.ts";
import { hasConcurrency } from "../../joint/charges.ts";
import { compilePolicy } from "../../policy/compile-policy.ts";
import { policyFromText } from "../../policy/policy-text.ts";
import { tokenBucket } from "../../policy/shorthand.ts";
import type { PolicyText } from "../../policy/text-type.ts";
import { errorReporter, type ReportError } from "./callbacks.ts";
import type { Frame, Ingress } from "./ingress.ts";
import { keyPerUserOrIpPerType, watchedKey } from "./keys.ts";
import type { FrameLimit, FrameOptions } from "./options.ts";
import type { CloseCodes, EncodeNotice, ExceededAction, LimitExceeded } from "./replies.ts";

/** The parsed frame options of a guard. */
export interface GuardConfig<Data, F = Frame, Message = string | Uint8Array> {
  readonly limits: readonly Required<FrameLimit<Data>>[];
  /** Whether a limit may be a concurrency limit, which is held while a handler runs. */
  readonly mayHold: boolean;
  /** The holds of handlers that have not settled. */
  readonly openHolds: OpenHolds;
  readonly connection: CompiledPolicy | undefined;
  readonly heartbeat: CompiledPolicy;
  readonly maxBytes: number;
  /** Returns the size of a frame in bytes. May return any number on the same side of `maxBytes`. */
  readonly sizeOf: (frame: F, maxBytes: number) => number;
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
  /** Passes an error to `onError`, or emits a process warning. */
  readonly reportError: ReportError;
  readonly clock: Clock;
}

const CALLBACKS = ["typeOf", "validate", "encode", "onLimitExceeded", "onInvalid", "onError"] as const;
const ACTIONS: readonly unknown[] = ["send", "close", "ban", "custom"];
const MAX_INT32: number = 2 ** 31 - 1;
/** The queue is an array that is shifted for every frame, which is slow for long arrays. */
const MAX_QUEUED = 100_000;

/** Whether a value is an `ExceededAction`. */
export function isAction(action: unknown): action is ExceededAction {
  return ACTIONS.includes(action);
}

/** Parses the frame options of a guard. `sizeOf` and `encode` depend on the kind of frames. */
export function parseGuardOptions<Data, F, Message>(
  options: FrameOptions<Data, F, Message>,
  sizeOf: GuardConfig<Data, F, Message>["sizeOf"],
  encode: EncodeNotice<Message, F>,
): GuardConfig<Data, F, Message> {
  for (const name of CALLBACKS) checkFunction(name, options[name]);
  const { onExceeded = "send", closeAfter, clock } = options;
  if (typeof onExceeded !== "function" && !isAction(onExceeded)) {
    throw optionError("invalid-option", "onExceeded", '"send", "close", "ban", "custom" or a function', onExceeded);
  }
  const maxBytes = checkWhole("maxBytes", options.maxBytes ?? 1_048_576, 1, MAX_INT32);
  const maxQueuedBytes = options.maxQueuedBytes ?? Math.max(4_194_304, maxBytes);
  const limits = parseLimits(options.limits ?? []);
  return {
    limits,
    mayHold: limits.some(({ limiter }) => typeof limiter === "function" || hasConcurrency(limiter)),
    openHolds: new OpenHolds(),
    connection: options.connection === false ? undefined : parsePolicy("connection", options.connection ?? "100/s"),
    heartbeat: parsePolicy("heartbeat", options.heartbeat ?? tokenBucket("2/s", { burst: 10 })),
    maxBytes,
    sizeOf,
    ...parseTypes(options),
    maxPending: checkWhole("maxPending", options.maxPending ?? 100, 1, MAX_INT32),
    maxQueued: checkWhole("maxQueued", options.maxQueued ?? 1000, 1, MAX_QUEUED),
    maxQueuedBytes: checkWhole("maxQueuedBytes", maxQueuedBytes, maxBytes, MAX_INT32),
    validate: options.validate,
    onExceeded,
    closeAfter:
      closeAfter === undefined ? Number.POSITIVE_INFINITY : checkWhole("closeAfter", closeAfter, 1, MAX_INT32),
    closeCodes: parseCloseCodes(options.closeCodes ?? {}),
    encode: options.encode ?? encode,
    onLimitExceeded: options.onLimitExceeded,
    onInvalid: options.onInvalid,
    onError: options.onError,
    reportError: errorReporter(options.onError),
    clock: clock === undefined ? systemClock() : checkedClock(clock),
  };
}

function parseTypes<Data, F, Message>({
  typeOf,
  types,
  heartbeats = [],
}: FrameOptions<Data, F, Message>): Pick<GuardConfig<Data, F, Message>, "typeOf" | "types" | "heartbeats"> {
  checkNames("heartbeats", heartbeats);
  if (typeOf === undefined) {
    const unused = types !== undefined ? "types" : heartbeats.length > 0 ? "heartbeats" : undefined;
    if (unused) throw optionError("invalid-option", "typeOf", `set to use ${unused}, such as typeOf: jsonType()`);
    return { typeOf, types: undefined, heartbeats: new Set() };
  }
  if (types === undefined) {
    const expected = 'an array of the known types, or "any"';
    const message = `typeOf needs types: ${expected}. With "any", a client gets a bucket for every type that it invents.`;
    throw new SluiceError("invalid-option", message, { option: "types", expected });
  }
  if (types === "any") return { typeOf, types: undefined, heartbeats: new Set(heartbeats) };
  checkNames("types", types);
  return { typeOf, types: new Set([...types, ...heartbeats]), heartbeats: new Set(heartbeats) };
}

function checkNames(option: string, names: unknown): void {
  if (Array.isArray(names) && names.every((name) => typeof name === "string")) return;
  throw optionError("invalid-option", option, "an array of strings", names);
}

/** Checks close codes, and adds those that are missing. */
export function parseCloseCodes(codes: CloseCodes): Required<CloseCodes> {
  checkOptions("closeCodes", codes, ["rate", "payload", "ban"]);
  const { rate = 1013, payload = 1009, ban = 1008 } = codes;
  for (const [name, code] of Object.entries({ rate, payload, ban })) {
    checkWhole(`closeCodes.${name}`, code, 1000, 4999);
    // RFC 6455, 7.4: 1005, 1006 and 1015 must not be sent; 1004 and 1016 to 2999 are reserved.
    if (code === 1004 || code === 1005 || code === 1006 || (code >= 1015 && code < 3000)) {
      throw optionError("invalid-option", `closeCodes.${name}`, "a code that can be sent, such as 1013 or 4000", code);
    }
  }
  return { rate, payload, ban };
}

function parseLimits<Data>(limits: FrameLimit<Data> | readonly FrameLimit<Data>[]): Required<FrameLimit<Data>>[] {
  const list = Array.isArray(limits) ? (limits as readonly FrameLimit<Data>[]) : [limits as FrameLimit<Data>];
  return list.map((limit) => {
    if (isLimiter(limit)) {
      const message = "limits must be an object such as { limiter }, but received the limiter itself.";
      const details = { option: "limits", expected: "an object such as { limiter }", received: limit };
      throw new SluiceError("invalid-option", message, details);
    }
    checkOptions("limits", limit, ["limiter", "key", "cost"]);
    const { limiter, key = keyPerUserOrIpPerType, cost = costOfOne } = limit;
    if (typeof limiter !== "function") {
      if (!isLimiter(limiter)) {
        throw notALimiter("limiter", "a limiter, or a function that returns one", limiter);
      }
      // Throws for limiters that can't be charged together with others.
      if (list.length > 1) partsOf(limiter);
    }
    checkFunction("key", key);
    checkFunction("cost", cost);
    return { limiter, key: watchedKey<Ingress<Data>>(key), cost };
  });
}

/** Whether a value has the methods of a limiter that the guard calls. */
export function isLimiter(limiter: unknown): limiter is RateLimiter {
  const { consume, getPolicy } = (limiter ?? {}) as Partial<RateLimiter>;
  return typeof consume === "function" && typeof getPolicy === "function";
}

/** The error for a value that is not a limiter. Names what one of another library lacks. */
export function notALimiter(option: string, expected: string, received: unknown): SluiceError {
  if (typeof (received as Partial<RateLimiter> | null | undefined)?.consume !== "function") {
    return optionError("invalid-limiter", option, expected, received);
  }
  const message = `${option} needs getPolicy() besides consume(). Add a method that returns the policy, such as { capacity: 100 }.`;
  return new SluiceError("invalid-limiter", message, { option, expected: "getPolicy()", received });
}

function costOfOne(): number {
  return 1;
}

/** Compiles the policy of an option. Errors name the option, as in `connection.capacity`. */
function parsePolicy(option: string, policy: Policy | PolicyText): CompiledPolicy {
  if ((typeof policy !== "string" && typeof policy !== "object") || isLimiter(policy)) {
    throw optionError("invalid-option", option, 'a policy or a rate such as "100/s", not a limiter', policy);
  }
  const resolved = typeof policy === "string" ? policyFromText(option, policy) : policy;
  try {
    for (const name of ["share", "prefix"] as const) {
      if (resolved[name] === undefined) continue;
      const expected = "omitted, because the bucket belongs to a single connection";
      throw optionError("invalid-option", name, expected, resolved[name]);
    }
    return compilePolicy(resolved);
  } catch (error) {
    if (!(error instanceof SluiceError) || error.expected === "") throw error;
    throw optionError(error.code, `${option}.${error.option}`, error.expected, error.received);
  }
}

/** Throws if an optional callback is set and is not a function. */
export function checkFunction(name: string, value: unknown): void {
  if (value === undefined || typeof value === "function") return;
  throw optionError("invalid-option", name, "a function", value);
}
