/** Reports the problems of one middleware: to the callback that is set for them, else as a process warning, once. */

import { isPromise } from "../../base/maybe-promise.ts";
import { describeError, emitProcessWarning, type WarningCode } from "../../base/warnings.ts";
import type { LimiterEvent } from "../../core/events.ts";
import { type ObserverPort, observerPort } from "../../core/observer.ts";
import type { RateLimitOptions } from "./options.ts";
import type { HandlerArgs } from "./request-reader.ts";

/** Callbacks whose errors do not affect the request. */
export type Callback =
  | "signals"
  | "shouldStore"
  | "onLimited"
  | "onDecision"
  | "onEvent"
  | "onError"
  | "refundIf"
  | "hold.actual"
  | "hold.settle";

type Callbacks<Args extends HandlerArgs> = Pick<RateLimitOptions<Args, unknown>, "onError" | "onEvent" | "observer">;

/** The callbacks `onError` and `onEvent` of one middleware, its observer, and the process warnings it has emitted. */
export class Reports<Args extends HandlerArgs> {
  private readonly onError: RateLimitOptions<Args, unknown>["onError"];
  private readonly onEvent: RateLimitOptions<Args, unknown>["onEvent"];
  private readonly observer: ObserverPort | undefined;
  /** The function that the callbacks were passed to. */
  private readonly owner: string;
  private readonly warned: Set<string> = new Set();

  constructor({ onError, onEvent, observer }: Callbacks<Args>, owner = "rateLimit") {
    this.onError = onError;
    this.onEvent = onEvent;
    this.observer = observerPort(observer);
    this.owner = owner;
  }

  /** Calls `onEvent`, if it is set, and the observer. */
  emit(event: LimiterEvent, args: Args): void {
    const { onEvent } = this;
    if (onEvent) this.run("onEvent", () => onEvent(event), args);
    this.observer?.transition(event);
  }

  /** Reports a configuration problem. Without a code it is not worth a process warning. `details` may contain keys. */
  warn(message: string, args: Args, code?: WarningCode, details = ""): void {
    const { onEvent } = this;
    const event = { type: "warning", policy: "", message: `${message}${details}` } as const;
    if (onEvent) this.run("onEvent", () => onEvent(event), args);
    else if (code) this.warnOnce(code, message, event.message);
    this.observer?.transition({ ...event, message });
  }

  /** Reports a problem with an event of its own; without `onEvent`, also as a process warning. */
  report(event: LimiterEvent, code: WarningCode, subject: string, message: string, args: Args): void {
    this.emit(event, args);
    if (!this.onEvent) this.warnOnce(code, subject, message);
  }

  /** Calls a callback without awaiting it. */
  run(name: Callback, callback: () => unknown, args: Args): void {
    try {
      const result = callback();
      if (isPromise(result)) result.then(undefined, (error) => this.callbackFailed(name, error, args));
    } catch (error) {
      this.callbackFailed(name, error, args);
    }
  }

  /** Reports the error of a callback to `onError`. */
  callbackFailed(name: Callback, error: unknown, args: Args): void {
    const { onError } = this;
    if (onError && name !== "onError") this.run("onError", () => onError(error, ...args), args);
    else {
      const hint = onError || this.owner !== "rateLimit" ? "" : HINT;
      this.warnOnce("SLUICE_CALLBACK_FAILED", name, `${name} of ${this.owner} failed: ${describeError(error)}.${hint}`);
    }
  }

  /** Reports a request that could not be checked, where the server has no error handler that would log it. */
  requestFailed(error: unknown): void {
    if (this.onError) return;
    this.warnOnce("SLUICE_REQUEST_FAILED", "", `A request could not be checked: ${describeError(error)}.${HINT}`);
  }

  private warnOnce(code: WarningCode, subject: string, message: string): void {
    const id = `${code} ${subject}`;
    if (this.warned.has(id)) return;
    this.warned.add(id);
    emitProcessWarning(code, message);
  }
}

const HINT = " Set onError to receive every such error.";
