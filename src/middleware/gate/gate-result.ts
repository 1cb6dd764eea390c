/** What the gate of a middleware decides about a request, as servers apply it. */
import type { Rejection, ResponseData } from "../../http/rejection.ts";
import type { PendingHeaders, ResponseFields } from "../../http/response.ts";
import type { LimitedRequest, RequestOutcome } from "./options.ts";
import type { Callback } from "./reports.ts";
import type { HandlerArgs } from "./request-reader.ts";
import type { ResponseCapture } from "./response-capture.ts";

/** Fields to add to the response, including a rejection or an error. */
interface ResponseAddition {
  /** Fields to set, whatever the status or caching of the response. Cookies are added to those of the application. */
  readonly set?: ResponseFields | undefined;
}

/** The request continues. */
export interface GatePass extends ResponseAddition {
  readonly rejection?: undefined;
  readonly answer?: undefined;
  readonly failure?: undefined;
  /** Header fields for the response; `undefined` in shadow mode, or if the numbers are unknown. */
  readonly pendingHeaders: PendingHeaders | undefined;
  /** How long to delay the request, in ms. */
  readonly delayMs: number;
  /** Refunds or settles the cost. Call it once the request is finished. `undefined`: there is nothing to do then. */
  readonly onFinish: OnFinish | undefined;
  /** Whether the request is finished only when the body of its response was sent: its cost is held until then. */
  readonly isHeld: boolean;
  /** Captures the response. Such a request is neither delayed nor held. */
  readonly capture?: ResponseCapture | undefined;
}

/**
 * The handler of a request whose client has disconnected: it has returned, settles a promise when it ends, or its end
 * can't be observed. A handler that has returned may still report the cost, from a stream.
 */
export type HandlerState = "returned" | PromiseLike<unknown> | "unseen";

/** Ends a request. `handler` is given if the handler has run: what the request holds is kept until it ends. */
export interface OnFinish {
  (outcome: RequestOutcome, handler?: HandlerState): Promise<void>;
  /** Stops to renew what the request holds: it ends with its lease, or before that with the request. */
  readonly stopRenewing?: (() => void) | undefined;
}

/** The request is rejected. */
export interface GateReject<Args extends HandlerArgs> extends ResponseAddition {
  readonly rejection: Rejection;
  readonly answer?: undefined;
  readonly failure?: undefined;
  /** The argument of `onLimited`; `undefined` for a preflight, because no script can read its body. */
  readonly limited: LimitedRequest<Args> | undefined;
}

/** The request gets a response that is not a rejection by a limit, such as a challenge or a replay. */
interface GateAnswer extends ResponseAddition {
  readonly rejection?: undefined;
  readonly answer: ResponseData;
  readonly failure?: undefined;
}

/** The request could not be checked, and its response has fields to set. */
interface GateFailure extends ResponseAddition {
  readonly rejection?: undefined;
  readonly answer?: undefined;
  /** Pass its error to `handleError`. */
  readonly failure: { readonly error: unknown };
}

/** `undefined`: the request continues and is not counted. */
export type GateResult<Args extends HandlerArgs> = GatePass | GateReject<Args> | GateAnswer | GateFailure | undefined;

/** How to continue after an error: allow the request, reject it, or pass the error to the server. */
export type GateErrorAction = "allow" | Rejection | Error;

/** The gate of one middleware. */
export interface Gate<Args extends HandlerArgs> {
  /** Decides about a request. Throws or rejects if that fails; pass the error to `handleError`. */
  enter(args: Args): GateResult<Args> | Promise<GateResult<Args>>;
  /** Calls `onError`, and returns how to continue. Never throws. */
  handleError(error: unknown, args: Args): GateErrorAction;
  /** Reports an error of a callback that does not affect the request. Never throws. */
  callbackFailed(callback: Callback, error: unknown, args: Args): void;
  /** Reports a request that could not be checked, on servers without an error handler. Never throws. */
  requestFailed(error: unknown): void;
}
