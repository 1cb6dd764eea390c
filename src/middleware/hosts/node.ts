/** What all servers on Node's `http` have in common: how a request is held, how it is answered, when it is done. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { isPromise } from "../../core/maybe-promise.ts";
import type { HeaderFields } from "../../http/headers/rate-limit-headers.ts";
import { type Answer, withoutType } from "../../http/rejection.ts";
import { addRejectionHeaders } from "../../http/response.ts";
import type { Gate, GatePass, GateReject, GateResult } from "../gate/gate.ts";
import { lateResult, MAX_ON_LIMITED_MS, unusableResult } from "../gate/on-limited.ts";
import type { Limited } from "../gate/options.ts";
import { beforeHead, ofResponse, rejectWith } from "./node-head.ts";

/** A header of a request; lines of one name are joined. */
export function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "object" ? value.join(", ") : value;
}

/** How a request is answered in place of its handler. */
export interface Responder<Call extends readonly unknown[]> {
  /** It could not be decided about, and the server is to deal with that. */
  fail(error: Error): void;
  /** Whether it has an answer already. */
  answered(): boolean;
  /** Sets the status and headers of an answer in place of the handler's. */
  head(status: number, headers: HeaderFields): void;
  /** Sends the body of that. */
  send(body: string): void;
  /** Sends what `onLimited` returned. `"later"`: it may still send a response itself. */
  sendOwn(own: unknown): "sent" | "later" | "unusable";
  readonly onLimited: ((limited: Limited<Call>) => unknown) | undefined;
}

/** Runs a request through the gate. `responderFor` is called only if the request does not simply continue. */
export function enterOnNode<Call extends readonly unknown[]>(
  gate: Gate<Call>,
  call: Call,
  response: ServerResponse,
  go: () => void,
  responderFor: () => Responder<Call>,
): void {
  let result: GateResult<Call> | Promise<GateResult<Call>>;
  try {
    result = gate.enter(call);
  } catch (error) {
    handleGateError(gate, call, error, go, responderFor);
    return;
  }
  if (!isPromise(result)) arrive(gate, result, response, go, responderFor);
  else {
    const goOn = unlessAnswered(response, go);
    result.then(
      (result) => arrive(gate, result, response, goOn, responderFor),
      (error) => handleGateError(gate, call, error, goOn, responderFor),
    );
  }
}

/** Goes on later, unless the application has responded until then: its handler would write the headers again. */
function unlessAnswered(response: ServerResponse, go: () => void): () => void {
  if (response.writableEnded) return go;
  return () => {
    if (!response.writableEnded) go();
  };
}

function arrive<Call extends readonly unknown[]>(
  gate: Gate<Call>,
  result: GateResult<Call>,
  response: ServerResponse,
  go: () => void,
  responderFor: () => Responder<Call>,
): void {
  if (result === undefined) go();
  else if (result.rejection) reject(result, response, responderFor(), gate);
  else continueRequest(result, response, go);
}

function handleGateError<Call extends readonly unknown[]>(
  gate: Gate<Call>,
  call: Call,
  error: unknown,
  go: () => void,
  responderFor: () => Responder<Call>,
): void {
  const outcome = gate.handleError(error, call);
  if (outcome === "allow") {
    go();
    return;
  }
  const responder = responderFor();
  if (!(outcome instanceof Error)) answer(outcome, responder);
  // An error handler would write the headers again, which throws.
  else if (responder.answered()) gate.requestFailed(outcome);
  else responder.fail(outcome);
}

/** Answers in place of the handler, unless somebody has answered meanwhile: a timeout of the application. */
function answer<Call extends readonly unknown[]>({ status, headers, body }: Answer, responder: Responder<Call>): void {
  if (responder.answered()) return;
  responder.head(status, headers);
  responder.send(body);
}

function reject<Call extends readonly unknown[]>(
  { rejection, limited }: GateReject<Call>,
  response: ServerResponse,
  responder: Responder<Call>,
  gate: Gate<Call>,
): void {
  const { onLimited } = responder;
  if (!onLimited || !limited || responder.answered()) {
    answer(rejection, responder);
    return;
  }
  const failed = (error: unknown): void => {
    gate.tellError("onLimited", error, limited.call);
    answer(rejection, responder);
  };
  const use = (own: unknown): void => {
    if (responder.answered()) return;
    const sent = responder.sendOwn(own);
    if (sent === "unusable") failed(unusableResult("a text, or a response that it sends itself", own));
    else if (sent === "later") wait();
  };
  // Templates are rendered, and streams are read, after it has returned.
  const wait = (): void =>
    after(
      response,
      MAX_ON_LIMITED_MS,
      () => responder.answered() || failed(lateResult("return a text, or send a response")),
    );
  try {
    rejectWith(response, rejection.status);
    responder.head(rejection.status, withoutType(rejection.headers));
    const own = onLimited(limited);
    // A reply of Fastify has a method then, but is no promise of a body.
    if (!isPromise(own) || own === limited.call[1]) use(own);
    else {
      wait();
      // Whoever has promised to be done, and has not answered, will not do it any more.
      own.then((own) => (own === undefined ? answer(rejection, responder) : use(own))).then(undefined, failed);
    }
  } catch (error) {
    failed(error);
  }
}

function continueRequest(
  { pendingHeaders, delayMs, settle }: GatePass,
  response: ServerResponse,
  go: () => void,
): void {
  if (response.destroyed) {
    // The client disconnected during the decision, or has its response: `close` will not be emitted again.
    const done = response.writableFinished;
    void settle?.({ status: done ? response.statusCode : undefined, aborted: !done });
    if (delayMs === 0) go();
    return;
  }
  if (pendingHeaders) beforeHead(response, pendingHeaders);
  if (settle) {
    let finished = false;
    response.once("finish", () => (finished = true));
    response.once("close", () => {
      // A response of HTTP/2 emits "finish" when its client has left, too.
      const aborted = !finished || !response.writableEnded;
      void settle({ status: response.headersSent ? response.statusCode : undefined, aborted });
    });
  }
  if (delayMs > 0) after(response, delayMs, unlessAnswered(response, go));
  else go();
}

/** Calls a function after a while, unless the client leaves first. */
function after(response: ServerResponse, delayMs: number, callback: () => void): void {
  const leave = (): void => clearTimeout(timer);
  const timer = setTimeout(() => {
    response.off("close", leave);
    callback();
  }, delayMs);
  response.once("close", leave);
}

/** How a plain response of Node is answered. */
export function nodeResponder<Call extends readonly unknown[]>(
  response: ServerResponse,
  onLimited: Responder<Call>["onLimited"],
): Omit<Responder<Call>, "fail"> {
  return {
    onLimited,
    answered: () => response.headersSent || response.writableEnded,
    head(status, headers) {
      response.statusCode = status;
      addRejectionHeaders(ofResponse, response, headers);
    },
    send: (body) => void response.end(body),
    sendOwn(own) {
      if (typeof own !== "string") return isData(own) ? "unusable" : "later";
      response.end(own);
      return "sent";
    },
  };
}

/** Whether a value is meant to be sent. A stream, a timer or the response itself says that a response is on its way. */
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
