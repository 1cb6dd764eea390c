/** Runs function calls through the gate: procedures and actions, which have a result in place of a response. */
import type { ResponseData } from "../../http/rejection.ts";
import type { PendingHeaders } from "../../http/response.ts";
import type { Gate, GateResult } from "../gate/gate.ts";
import type { LimitedRequest, RequestOutcome } from "../gate/options.ts";
import type { HandlerArgs } from "../gate/request-reader.ts";

/** What happens to a call. */
export interface CallResponder<Args extends HandlerArgs, Result> {
  /** Makes the call. */
  next(): Promise<Result> | Result;
  /** The result of a call that is rejected, or an error. */
  reject(rejection: ResponseData, limited: LimitedRequest<Args> | undefined): Promise<Result> | Result;
  /** Passes on the header fields of a call that continues, where there is a response to add them to. */
  addHeaders?(pendingHeaders: PendingHeaders): void;
  /** Whether the client has disconnected. */
  isAborted?(): boolean;
  /** Whether a result means that the call failed. Default: only errors do. */
  hasFailed?(result: Result): boolean;
}

/** Runs a call through the gate. Errors of the gate are thrown. */
export async function enterCall<Args extends HandlerArgs, Result>(
  gate: Gate<Args>,
  args: Args,
  responder: CallResponder<Args, Result>,
): Promise<Result> {
  let result: GateResult<Args>;
  try {
    result = await gate.enter(args);
    if (result?.failure) throw result.failure.error;
  } catch (error) {
    const action = gate.handleError(error, args);
    if (action === "allow") return responder.next();
    if (action instanceof Error) throw action;
    return responder.reject(action, undefined);
  }
  if (result === undefined) return responder.next();
  if (result.answer) return responder.reject(result.answer, undefined);
  if (result.rejection) return responder.reject(result.rejection, result.limited);
  const { pendingHeaders, delayMs, onFinish } = result;
  if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs));
  if (pendingHeaders) responder.addHeaders?.(pendingHeaders);
  const finish = async (outcome: RequestOutcome): Promise<void> => onFinish?.(outcome);
  try {
    const value = await responder.next();
    const aborted = responder.isAborted?.() ?? false;
    await finish({ status: responder.hasFailed?.(value) ? 500 : 200, aborted });
    return value;
  } catch (error) {
    await finish({ status: undefined, error, aborted: responder.isAborted?.() ?? false });
    throw error;
  }
}
