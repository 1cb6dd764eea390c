/** Runs requests of Node's `http` servers through the gate: delays, rejections, and when a request is finished. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { isPromise } from "../../base/maybe-promise.ts";
import type { HeaderFields } from "../../http/headers/field-writer.ts";
import { type ProblemResponse, type ResponseData, withoutContentType } from "../../http/rejection.ts";
import { addAnswerHeaders, addRejectionHeaders, type ResponseFields } from "../../http/response.ts";
import type { Gate, GatePass, GateReject, GateResult } from "../gate/gate.ts";
import { lateResult, MAX_ON_LIMITED_MS, unusableResult } from "../gate/on-limited.ts";
import type { LimitedRequest } from "../gate/options.ts";
import type { HandlerArgs } from "../gate/request-reader.ts";
import { recordUnhandled } from "../gate/unhandled.ts";
import { hasDisconnected, isClosed, onceClosed, runUntilClose } from "./node-close.ts";
import { beforeHead, rejectWith, responseHead, setBeforeHead } from "./node-head.ts";
import { watchUnreadBody } from "./unread-body.ts";

/** A request header by its lower-case name. Several lines are joined. */
export function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "object" ? value.join(", ") : value;
}

/** Sends a response in place of the handler. */
export interface Responder<Args extends HandlerArgs> {
  /** Passes an error to the server: the request could not be checked. */
  fail(error: Error): void;
  /** Whether a response has been sent. */
  hasResponded(): boolean;
  /** Sets the status and headers of the response. */
  head(status: number, headers: HeaderFields): void;
  /** Sets the status and headers of an answer. */
  answerHead(status: number, headers: ResponseFields): void;
  /** Sends the body of the response. `limited` is the request, if a limit has denied it. */
  send(body: ResponseData["body"], limited?: LimitedRequest<Args>): void;
  /** Sends what `onLimited` returned. `"later"`: it may still send a response itself. */
  sendCustom(custom: unknown, limited: LimitedRequest<Args>): "sent" | "later" | "unusable";
  readonly onLimited: ((limited: LimitedRequest<Args>) => unknown) | undefined;
}

/** One request on its way through the gate. */
export interface NodeEntry<Args extends HandlerArgs> {
  readonly gate: Gate<Args>;
  readonly args: Args;
  readonly response: ServerResponse;
  /** Continues with the handler. A returned promise settles when the handler has ended. */
  readonly next: () => unknown;
  /** Called only if the request does not simply continue. */
  readonly responderFor: () => Responder<Args>;
}

/** Runs a request through the gate. Returns a promise if the decision takes one; it resolves once that is applied. */
export function enterOnNode<Args extends HandlerArgs>(entry: NodeEntry<Args>): Promise<void> | undefined {
  const { gate, args, response, next } = entry;
  if (hasDisconnected(response)) {
    dropEntry(entry);
    return undefined;
  }
  let result: GateResult<Args> | Promise<GateResult<Args>>;
  try {
    result = gate.enter(args);
  } catch (error) {
    handleGateError(entry, error);
    return undefined;
  }
  if (!isPromise(result)) {
    applyResult(entry, result);
    return undefined;
  }
  const later = { ...entry, next: unlessResponded(response, next) };
  return result.then(
    (result) => applyResult(later, result),
    (error) => handleGateError(later, error),
  );
}

/** Continues unless the application has responded in the meantime: its handler would write the headers again. */
function unlessResponded(response: ServerResponse, next: () => unknown): () => unknown {
  return response.writableEnded ? next : () => (response.writableEnded ? undefined : next());
}

function applyResult<Args extends HandlerArgs>(entry: NodeEntry<Args>, result: GateResult<Args>): void {
  if (result === undefined) {
    entry.next();
    return;
  }
  if (result.set) setBeforeHead(entry.response, result.set);
  if (result.rejection) reject(entry, result);
  else if (result.answer) answer(entry, result.answer);
  else if (result.failure) handleGateError(entry, result.failure.error);
  else continueRequest(entry, result);
}

function answer<Args extends HandlerArgs>(
  { responderFor }: NodeEntry<Args>,
  { status, headers, body }: ResponseData,
): void {
  const responder = responderFor();
  if (responder.hasResponded()) return;
  responder.answerHead(status, headers);
  responder.send(body);
}

function handleGateError<Args extends HandlerArgs>(entry: NodeEntry<Args>, error: unknown): void {
  const { gate, args, response, next, responderFor } = entry;
  // The address of a client that has disconnected is unknown, for example: its error must not be reported or stored.
  if (hasDisconnected(response)) {
    dropEntry(entry);
    return;
  }
  const action = gate.handleError(error, args);
  if (action === "allow") {
    next();
    return;
  }
  const responder = responderFor();
  if (!(action instanceof Error)) sendResponse(action, responder);
  // An error handler would write the headers again, which throws.
  else if (responder.hasResponded()) gate.requestFailed(action);
  else responder.fail(action);
}

/** Responds in place of the handler, unless the application has responded in the meantime, as after a timeout. */
function sendResponse<Args extends HandlerArgs>(
  { status, headers, body }: ProblemResponse,
  responder: Responder<Args>,
  limited?: LimitedRequest<Args>,
): void {
  if (responder.hasResponded()) return;
  responder.head(status, headers);
  responder.send(body, limited);
}

function reject<Args extends HandlerArgs>(
  { gate, response, responderFor }: NodeEntry<Args>,
  { rejection, limited }: GateReject<Args>,
): void {
  const responder = responderFor();
  const { onLimited } = responder;
  if (!onLimited || !limited || responder.hasResponded()) {
    sendResponse(rejection, responder, limited);
    return;
  }
  const failed = (error: unknown): void => {
    gate.callbackFailed("onLimited", error, limited.args);
    sendResponse(rejection, responder, limited);
  };
  const sendCustom = (custom: unknown): void => {
    if (responder.hasResponded()) return;
    const sent = responder.sendCustom(custom, limited);
    if (sent === "unusable") failed(unusableResult("a string, or send a response itself", custom));
    else if (sent === "later") wait();
  };
  // Templates are rendered, and streams are read, after onLimited has returned.
  const wait = (): void =>
    after(
      response,
      MAX_ON_LIMITED_MS,
      () => responder.hasResponded() || failed(lateResult("Return a string, or send a response.")),
    );
  try {
    rejectWith(response, rejection.status);
    responder.head(rejection.status, withoutContentType(rejection.headers));
    const custom = onLimited(limited);
    // A Fastify reply has a method `then`, but is not a promise of a body.
    if (!isPromise(custom) || custom === limited.args[1]) sendCustom(custom);
    else {
      wait();
      // An async function that has resolved without a response will not send one later.
      custom
        .then((custom) => (custom === undefined ? sendResponse(rejection, responder, limited) : sendCustom(custom)))
        .then(undefined, failed);
    }
  } catch (error) {
    failed(error);
  }
}

function continueRequest<Args extends HandlerArgs>(entry: NodeEntry<Args>, pass: GatePass): void {
  const { response, next } = entry;
  const { pendingHeaders, delayMs, onFinish, isHeld, capture } = pass;
  if (isClosed(response)) {
    // The client disconnected during the decision, or has its response: `close` will not be emitted again.
    const isFinished = response.writableFinished;
    void onFinish?.({ status: isFinished ? response.statusCode : undefined, aborted: !isFinished });
    // The handler of a held request would run without its hold, and a captured response could not be delivered.
    if (delayMs === 0 && !isHeld && !capture) next();
    else {
      capture?.without("aborted");
      dropEntry(entry);
    }
    return;
  }
  if (pendingHeaders) beforeHead(response, pendingHeaders);
  if (response.writableEnded) capture?.without("aborted");
  else capture?.onNode(response);
  const run = (): void => {
    if (isHeld) watchUnreadBody(response, onFinish?.stopRenewing);
    if (onFinish) runUntilClose(response, { onFinish, isHeld }, next);
    else next();
  };
  if (delayMs === 0) {
    run();
    return;
  }
  const disconnected = (): void => {
    // The handler never runs.
    void onFinish?.({ status: undefined, aborted: true });
    dropEntry(entry);
  };
  after(response, delayMs, unlessResponded(response, run), disconnected);
}

/** Ends the response to a request whose handler does not run, because the client has disconnected. It is not sent. */
function dropEntry<Args extends HandlerArgs>({ args, response }: NodeEntry<Args>): void {
  recordUnhandled(args[0] as object);
  if (response.headersSent || response.writableEnded) return;
  response.statusCode = DROPPED;
  response.end();
}

/** The status of a dropped request, as `Response` servers have it, for middleware that captures the response. */
const DROPPED = 499;

/** Calls a function after a delay, unless the client disconnects first. */
function after(response: ServerResponse, delayMs: number, callback: () => unknown, disconnected?: () => void): void {
  let isOver = false;
  const timer = setTimeout(() => {
    isOver = true;
    callback();
  }, delayMs);
  onceClosed(response, () => {
    if (isOver) return;
    isOver = true;
    clearTimeout(timer);
    disconnected?.();
  });
}

/** The responder of a plain Node response. */
export function nodeResponder<Args extends HandlerArgs>(
  response: ServerResponse,
  onLimited: Responder<Args>["onLimited"],
): Omit<Responder<Args>, "fail"> {
  return {
    onLimited,
    hasResponded: () => response.headersSent || response.writableEnded,
    head(status, headers) {
      response.statusCode = status;
      addRejectionHeaders(responseHead, response, headers);
    },
    answerHead(status, headers) {
      response.statusCode = status;
      addAnswerHeaders(responseHead, response, headers);
    },
    send: (body) => void response.end(body ?? undefined),
    sendCustom(custom) {
      if (typeof custom !== "string") return isData(custom) ? "unusable" : "later";
      response.end(custom);
      return "sent";
    },
  };
}

/** Whether a value is meant as a body. A stream, a timer or the response itself means that a response will be sent. */
function isData(value: unknown): boolean {
  if (value === undefined) return false;
  if (typeof value !== "object" || value === null || Array.isArray(value) || value instanceof Uint8Array) return true;
  const prototype = Object.getPrototypeOf(value);
  return (
    prototype === Object.prototype ||
    prototype === null ||
    typeof (value as { arrayBuffer?: unknown }).arrayBuffer === "function"
  );
}
