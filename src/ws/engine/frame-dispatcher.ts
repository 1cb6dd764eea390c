/** The last stages of a frame: frames in flight, validation, and the handler or the rejection. */
import { isPromise } from "../../base/maybe-promise.ts";
import { callListener, requireSync } from "./callbacks.ts";
import type { Enforcement } from "./enforcement.ts";
import { type QueuedFrame, releaseHold } from "./frame-queue.ts";
import type { GuardConfig } from "./guard-config.ts";
import { INVALID } from "./ingress.ts";
import { inFlightViolation, type RejectReason } from "./violation.ts";

/** Dispatches the frames of one connection to their handlers. */
export class FrameDispatcher<Data, F, Message> {
  private readonly config: GuardConfig<Data, F, Message>;
  private readonly enforcement: Enforcement<Data, F, Message>;
  private readonly connection: { readonly closed: boolean };
  /** Number of frames whose handlers have not settled. */
  private pending = 0;

  constructor(
    config: GuardConfig<Data, F, Message>,
    enforcement: Enforcement<Data, F, Message>,
    connection: { readonly closed: boolean },
  ) {
    this.config = config;
    this.enforcement = enforcement;
    this.connection = connection;
  }

  /** Runs the handler of a decided frame, or rejects it. */
  dispatch(queued: QueuedFrame<Data, F>): void {
    const { state, hold } = queued;
    if (state.type === "charging") return;
    const isHandled = !this.connection.closed && this.pass(queued);
    // A frame whose handler does not run has nothing in flight.
    if (hold && !isHandled) releaseHold(hold);
  }

  /** Runs the handler, or rejects the frame. Returns whether the handler runs. */
  private pass(queued: QueuedFrame<Data, F>): boolean {
    const { state, ingress } = queued;
    const { maxPending } = this.config;
    if (state.type === "charging") return false;
    if (state.type !== "allowed") this.reject(queued, state);
    else if (ingress.type === INVALID) this.rejectInvalid(queued);
    else if (this.pending >= maxPending) {
      this.reject(queued, inFlightViolation(ingress.id, { observed: this.pending + 1, limit: maxPending }));
    } else if (this.isValid(queued) && !this.connection.closed) {
      this.handle(queued);
      return true;
    }
    return false;
  }

  /** Rejects a frame that exceeded a limit or could not be charged. */
  reject(queued: QueuedFrame<Data, F>, reason: RejectReason): void {
    if (reason.type === "uncharged") this.enforcement.notifyInvalid(reason.message, queued.frame);
    else this.enforcement.enforce(reason, queued);
  }

  /** Rejects a frame that can't be parsed or that `validate` rejected. It has been charged. */
  private rejectInvalid({ frame, ingress }: QueuedFrame<Data, F>, error?: unknown): void {
    const { onInvalid, reportError } = this.config;
    callListener(onInvalid, reportError, ingress, error);
    this.enforcement.notifyInvalid("The message is invalid.", frame);
  }

  private isValid(queued: QueuedFrame<Data, F>): boolean {
    const { validate } = this.config;
    if (!validate) return true;
    try {
      const result = requireSync("validate", validate(queued.frame, queued.ingress));
      if (isValidResult(result)) return true;
      this.rejectInvalid(queued, result);
    } catch (error) {
      this.rejectInvalid(queued, error);
    }
    return false;
  }

  private handle({ frame, ingress, handle, hold }: QueuedFrame<Data, F>): void {
    this.pending++;
    const done = (): void => {
      this.pending--;
      if (!hold) return;
      this.config.openHolds.delete(hold);
      releaseHold(hold);
    };
    let result: unknown;
    try {
      result = handle(frame, ingress);
    } catch (error) {
      done();
      this.reportHandlerError(error);
      return;
    }
    if (!isPromise(result)) {
      done();
      return;
    }
    if (hold) this.config.openHolds.add(hold);
    // `Promise.resolve` first: the `then` of an arbitrary thenable may throw.
    Promise.resolve(result).then(done, (error) => {
      done();
      this.reportHandlerError(error);
    });
  }

  /** Without `onError`, an error of a handler becomes an unhandled rejection, as it would without a guard. */
  private reportHandlerError(error: unknown): void {
    if (this.config.onError) callListener(this.config.onError, undefined, error);
    else void Promise.reject(error);
  }
}

/** False for `false` and for the results with which schema libraries report a failure. */
function isValidResult(result: unknown): boolean {
  if (typeof result !== "object" || result === null) return result !== false;
  const { success, issues } = result as { success?: unknown; issues?: unknown };
  return success !== false && !(Array.isArray(issues) && issues.length > 0);
}
