/** Runs requests of servers that use `Request` and `Response` through the gate. */
import { isPromise } from "../../base/maybe-promise.ts";
import { type ProblemResponse, type ResponseData, withoutContentType } from "../../http/rejection.ts";
import {
  addAnswerHeaders,
  addRateLimitHeaders,
  addRejectionHeaders,
  type PendingHeaders,
  type ResponseFields,
  type ResponseHead,
  setFields,
} from "../../http/response.ts";
import type { Gate, GatePass, GateReject, GateResult } from "../gate/gate.ts";
import { lateResult, MAX_ON_LIMITED_MS, unusableResult } from "../gate/on-limited.ts";
import type { LimitedRequest, RequestOutcome } from "../gate/options.ts";
import type { HandlerArgs } from "../gate/request-reader.ts";
import type { ResponseCapture } from "../gate/response-capture.ts";
import { recordUnhandled } from "../gate/unhandled.ts";
import { delay } from "./delay.ts";
import type { FetchConnection } from "./fetch-connection.ts";
import { onceSent } from "./once-sent.ts";

/** A return value of `onLimited`; `undefined` for the problem document. */
export type CustomResponse = Response | undefined | Promise<Response | undefined>;

/** Continues a request, or responds in place of the handler. */
export interface FetchResponder<Args extends HandlerArgs> {
  /** Calls the handler. */
  next(): Promise<Response> | Response;
  /** Responds to a request that could not be checked, or throws. */
  fail(error: Error): Response;
  /** Adds the headers when the response is sent, if that is cheaper than changing it. Returns whether it will. */
  addHeadersOnSend?(pendingHeaders: PendingHeaders): boolean;
  /** Creates a response in place of the handler's, with headers that earlier middleware has set. */
  respond?(body: BodyInit | null, status: number): Response;
  /** The connection, on servers that pass it. Called only if something depends on it. */
  connection?(): FetchConnection | undefined;
  /** Whether `next` rejects when the client disconnects, although the handler runs on. Default: false. */
  readonly endsOnAbort?: boolean;
  /** The error that the handler threw, if the framework has turned it into a response. */
  thrown?(): unknown;
  /** The status of the response that the framework makes of a thrown error, such as a redirect. Default: none. */
  statusOf?(error: unknown): number | undefined;
  readonly onLimited: ((limited: LimitedRequest<Args>) => CustomResponse) | undefined;
}

/** Runs a request through the gate. Only promises are awaited: each microtask costs a fast server throughput. */
export function enterOnFetch<Args extends HandlerArgs>(
  gate: Gate<Args>,
  args: Args,
  request: Request,
  responder: FetchResponder<Args>,
): Promise<Response> | Response {
  const handleGateError = (error: unknown): Promise<Response> | Response => {
    if (isGone(request, responder)) return dropped(args);
    const action = gate.handleError(error, args);
    if (action === "allow") return responder.next();
    return action instanceof Error ? responder.fail(action) : toResponse(action, responder);
  };
  const applyResult = (result: GateResult<Args>): Promise<Response> | Response => {
    if (result === undefined) return responder.next();
    const { set } = result;
    return set ? withFields(respond(result), set) : respond(result);
  };
  const respond = (result: NonNullable<GateResult<Args>>): Promise<Response> | Response => {
    if (result.answer) return answer(result.answer, responder);
    if (result.rejection) return reject(result, responder, gate);
    if (result.failure) return handleGateError(result.failure.error);
    const { delayMs, onFinish, isHeld, capture } = result;
    if (capture && isGone(request, responder)) {
      capture.without("aborted");
      return dropped(args);
    }
    const through = capture ? capturing(capture, responder) : responder;
    const pendingHeaders =
      result.pendingHeaders && !through.addHeadersOnSend?.(result.pendingHeaders) ? result.pendingHeaders : undefined;
    if (delayMs > 0 || onFinish) {
      return continueRequest({ pendingHeaders, delayMs, onFinish, isHeld }, args, request, through);
    }
    const response = through.next();
    if (!pendingHeaders) return response;
    return isPromise(response)
      ? response.then((response) => withHeaders(response, pendingHeaders))
      : withHeaders(response, pendingHeaders);
  };
  let result: GateResult<Args> | Promise<GateResult<Args>>;
  try {
    result = gate.enter(args);
  } catch (error) {
    return handleGateError(error);
  }
  return isPromise(result)
    ? result.then(
        (result) => applyResult(result),
        (error) => handleGateError(error),
      )
    : applyResult(result);
}

function isGone(request: Request, responder: FetchResponder<never>): boolean {
  return responder.connection?.()?.hasDisconnected() ?? request.signal?.aborted ?? false;
}

/** The response to a request whose handler does not run, because the client has disconnected. It is not sent. */
function dropped([request]: HandlerArgs): Response {
  recordUnhandled(request as object);
  return new Response(null, { status: 499 });
}

/** Captures the response of the handler. */
function capturing<Args extends HandlerArgs>(
  capture: ResponseCapture,
  responder: FetchResponder<Args>,
): FetchResponder<Args> {
  const next = async (): Promise<Response> => {
    try {
      return await capture.onFetch(await responder.next());
    } catch (error) {
      capture.without("failed", error);
      throw error;
    }
  };
  return { ...responder, next };
}

/** Sets fields on a response, whoever creates it. */
async function withFields(responding: Promise<Response> | Response, fields: ResponseFields): Promise<Response> {
  const response = await responding;
  // An upgrade must be returned as it is.
  if (response.status === 101) return response;
  try {
    setFields(headersHead, response.headers, fields);
    return response;
  } catch {
    // A response of `fetch` is immutable: set the fields on a copy.
    const copy = new Response(response.body, response);
    setFields(headersHead, copy.headers, fields);
    return copy;
  }
}

/** Statuses that forbid a body, for which `Response` throws if there is one. */
const WITHOUT_BODY = [204, 205, 304];

/** Turns an answer into a `Response`, with headers that earlier middleware has set. */
function answer({ status, headers, body }: ResponseData, { respond }: FetchResponder<never>): Response {
  const content = WITHOUT_BODY.includes(status) ? null : (body as BodyInit | null);
  const response = respond?.(content, status) ?? new Response(content, { status });
  addAnswerHeaders(headersHead, response.headers, headers);
  return response;
}

function reject<Args extends HandlerArgs>(
  { rejection, limited }: GateReject<Args>,
  responder: FetchResponder<Args>,
  gate: Gate<Args>,
): Promise<Response> | Response {
  const { onLimited } = responder;
  if (!onLimited || !limited) return toResponse(rejection, responder);
  const failed = (error: unknown): Response => {
    gate.callbackFailed("onLimited", error, limited.args);
    return toResponse(rejection, responder);
  };
  const respondWith = (custom: Response | undefined): Response => {
    if (custom === undefined) return toResponse(rejection, responder);
    if (typeof custom?.headers?.forEach === "function") return withRejectionHead(custom, rejection, responder);
    throw unusableResult("a Response, such as Response.json({ error })", custom);
  };
  try {
    const custom = onLimited(limited);
    return isPromise(custom) ? withTimeout(custom).then(respondWith).catch(failed) : respondWith(custom);
  } catch (error) {
    return failed(error);
  }
}

/** Rejects if `onLimited` takes too long. */
function withTimeout<T>(custom: PromiseLike<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout>;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(lateResult("Resolve with a Response.")), MAX_ON_LIMITED_MS);
  });
  return Promise.race([custom, late]).finally(() => clearTimeout(timer));
}

/** The application's body with the headers of the rejection. Its status is kept from 400. */
function withRejectionHead(custom: Response, rejection: ProblemResponse, { respond }: FetchResponder<never>): Response {
  const { headers } = rejection;
  const status = custom.status >= 400 ? custom.status : rejection.status;
  const response = respond?.(custom.body, status) ?? new Response(custom.body, { status });
  custom.headers.forEach((value, name) => {
    if (name === "set-cookie") response.headers.append(name, value);
    else response.headers.set(name, value);
  });
  addRejectionHeaders(headersHead, response.headers, withoutContentType(headers));
  return response;
}

/** Turns response data into a `Response`. */
export function toResponse(
  { status, headers, body }: ProblemResponse,
  { respond }: Pick<FetchResponder<never>, "respond"> = {},
): Response {
  if (!respond) return new Response(body, { status, headers });
  const response = respond(body, status);
  addRejectionHeaders(headersHead, response.headers, headers);
  return response;
}

/** Continues a request that is delayed, may be refunded, or has a hold. */
async function continueRequest<Args extends HandlerArgs>(
  { pendingHeaders, delayMs, onFinish, isHeld }: GatePass,
  args: Args,
  request: Request,
  responder: FetchResponder<Args>,
): Promise<Response> {
  if (delayMs > 0 && !(await delay(request.signal, delayMs))) {
    await onFinish?.(ABORTED);
    return dropped(args);
  }
  // Read before the handler runs: some servers create the signal on first use.
  const { signal } = request;
  if (isHeld && signal.aborted) {
    // The client disconnected during the decision. The handler would run without its hold.
    await onFinish?.(ABORTED);
    return dropped(args);
  }
  const connection = isHeld ? responder.connection?.() : undefined;
  connection?.watchUnreadBody(onFinish?.stopRenewing);
  const ended = responder.endsOnAbort ? "unseen" : "returned";
  // Some servers abort the signal also after the end.
  let isRunning = true;
  try {
    const handler = responder.next();
    if (isHeld && onFinish && isPromise(handler)) {
      const disconnected = (): void => {
        if (isRunning) void onFinish(ABORTED, responder.endsOnAbort ? "unseen" : handler);
      };
      if (connection) connection.onClose(disconnected);
      else signal.addEventListener("abort", disconnected, { once: true });
    }
    const response = await handler;
    isRunning = false;
    const { aborted } = signal;
    const outcome = { status: aborted ? undefined : response.status, error: responder.thrown?.(), aborted };
    if (isHeld && onFinish && !aborted && request.method !== "HEAD") {
      const sent = await onceSent(response, outcome, onFinish, connection);
      return pendingHeaders ? withHeaders(sent, pendingHeaders) : sent;
    }
    // Awaited, because a Worker may be stopped after it has responded.
    await onFinish?.(outcome, ended);
    return pendingHeaders ? withHeaders(response, pendingHeaders) : response;
  } catch (error) {
    // The handler threw, or returned a value that can't be sent.
    isRunning = false;
    const { aborted } = signal;
    const status = aborted ? undefined : responder.statusOf?.(error);
    const isError = status === undefined || status >= 400;
    await onFinish?.({ status, error: isError ? error : undefined, aborted }, ended);
    throw error;
  }
}

const ABORTED: RequestOutcome = { status: undefined, aborted: true };

function withHeaders(response: Response, pendingHeaders: PendingHeaders): Response {
  try {
    addRateLimitHeaders(headersHead, response.headers, response.status, pendingHeaders);
    return response;
  } catch {
    // A response of `fetch` is immutable: add the headers to a copy.
    const copy = new Response(response.body, response);
    addRateLimitHeaders(headersHead, copy.headers, copy.status, pendingHeaders);
    return copy;
  }
}

const headersHead: ResponseHead<Headers> = {
  get: (headers, name) => headers.get(name) ?? undefined,
  set: (headers, name, value) => headers.set(name, value),
  append: (headers, name, value) => headers.append(name, value),
  remove: (headers, name) => headers.delete(name),
};
