/** Runs function calls through the gate: procedures and actions, which have a result in place of a response. */
import { isPromise } from "../../base/maybe-promise.ts";
import type { ResponseData } from "../../http/rejection.ts";
import type { PendingHeaders } from "../../http/response.ts";
import type { Gate, GateResult } from "../gate/gate.ts";
import type { LimitedRequest, RequestOutcome } from "../gate/options.ts";
import type { HandlerArgs } from "../gate/request-reader.ts";
import { delay } from "./delay.ts";
import type { FetchConnection } from "./fetch-connection.ts";

/** What happens to a call. */
export interface CallResponder<Args extends HandlerArgs, Result> {
  /** Makes the call. */
  next(): Promise<Result> | Result;
  /** The result of a call that is rejected, or an error. */
  reject(rejection: ResponseData, limited: LimitedRequest<Args> | undefined): Promise<Result> | Result;
  /** Passes on the header fields of a call that continues, where there is a response to add them to. */
  addHeaders?(pendingHeaders: PendingHeaders): void;
  /** Aborted when the client disconnects. */
  readonly signal?: AbortSignal | undefined;
  /** The connection, on servers that pass it. Called only if something is held. */
  connection?(): FetchConnection | undefined;
  /** The error of a call whose client disconnects before it is made. Default: the call is made. */
  disconnected?(): Error;
  /** The error that a result contains; `undefined` if the call succeeded. Default: only thrown errors. */
  errorOf?(result: Result): unknown;
  /** The status of the response that the framework makes of a thrown error, such as a redirect. Default: none. */
  statusOf?(error: unknown): number | undefined;
  /**
   * Returns the result of a call that goes on after it has returned, such as a subscription, and calls `finish` when it
   * ends. `undefined`: the call has ended.
   */
  watch?(result: Result, finish: FinishCall): Result | undefined;
}

/** Ends a call, with the error that it failed with. Further calls have no effect. */
export type FinishCall = (error?: unknown) => Promise<void>;

/** Runs a call through the gate. Errors of the gate are thrown. */
export async function enterCall<Args extends HandlerArgs, Result>(
  gate: Gate<Args>,
  args: Args,
  responder: CallResponder<Args, Result>,
): Promise<Result> {
  const { signal } = responder;
  let result: GateResult<Args>;
  try {
    result = await gate.enter(args);
    if (result?.failure) throw result.failure.error;
  } catch (error) {
    // The address of a client that has disconnected is unknown, for example: its error must not be reported.
    if (signal?.aborted && responder.disconnected) throw responder.disconnected();
    const action = gate.handleError(error, args);
    if (action === "allow") return responder.next();
    if (action instanceof Error) throw action;
    return responder.reject(action, undefined);
  }
  if (result === undefined) return responder.next();
  if (result.answer) return responder.reject(result.answer, undefined);
  if (result.rejection) return responder.reject(result.rejection, result.limited);
  const { pendingHeaders, delayMs, onFinish, isHeld } = result;
  const isConnected = delayMs === 0 || (await delay(signal, delayMs));
  // A call whose client disconnected during the decision would run without its hold.
  if (responder.disconnected && (!isConnected || (isHeld && signal?.aborted))) {
    await onFinish?.(ABORTED);
    throw responder.disconnected();
  }
  if (pendingHeaders) responder.addHeaders?.(pendingHeaders);
  if (!onFinish) return responder.next();
  const finish: FinishCall = (error) => onFinish(outcomeOf(error, signal?.aborted ?? false), "returned");
  let value: Result;
  let disconnected = (): void => {};
  try {
    const call = responder.next();
    if (isHeld && isPromise(call)) {
      // What a call holds is kept until it ends, which it may never do.
      disconnected = () => void onFinish(ABORTED, call);
      const connection = responder.connection?.();
      connection?.watchUnreadBody(onFinish.stopRenewing);
      // The signal of a pipelined request is not aborted.
      connection?.onClose(() => disconnected());
      signal?.addEventListener("abort", disconnected);
    }
    value = await call;
  } catch (error) {
    const status = responder.statusOf?.(error);
    await finish(status !== undefined && status < 400 ? undefined : error);
    throw error;
  } finally {
    signal?.removeEventListener("abort", disconnected);
    disconnected = () => {};
  }
  const error = responder.errorOf?.(value);
  const watched = error === undefined ? responder.watch?.(value, finish) : undefined;
  if (watched !== undefined) return watched;
  await finish(error);
  return value;
}

const ABORTED: RequestOutcome = { status: undefined, aborted: true };

/** A call has no status. That of its outcome is 200, or missing if it failed. */
function outcomeOf(error: unknown, aborted: boolean): RequestOutcome {
  return error === undefined ? { status: 200, aborted } : { status: undefined, error, aborted };
}
