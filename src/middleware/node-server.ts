/** What all servers on Node's `http` have in common: how a request is held, how it is answered, when it is done. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { isPromise } from "../core/maybe-promise.ts";
import type { HeaderFields } from "../http/headers.ts";
import { tellRejection } from "../http/response.ts";
import { type Answer, withoutType } from "../http/too-many-requests.ts";
import type { Gate, Pass, Passage, Stop } from "./gate.ts";
import { beforeHead, ofResponse, rejectWith } from "./node-head.ts";
import { lateResult, MAX_ON_LIMITED_MS, unusableResult } from "./on-limited.ts";
import type { Limited } from "./options.ts";

/** A header of a request; lines of one name are joined. */
export function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "object" ? value.join(", ") : value;
}

/** How a request is answered in place of its handler. */
export interface Ways<Call extends readonly unknown[]> {
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

/** Takes a request through the gate. `waysOf` is asked only when it does not simply go on. */
export function enterOnNode<Call extends readonly unknown[]>(
  gate: Gate<Call>,
  call: Call,
  response: ServerResponse,
  go: () => void,
  waysOf: () => Ways<Call>,
): void {
  let passage: Passage<Call> | Promise<Passage<Call>>;
  try {
    passage = gate.enter(call);
  } catch (error) {
    mishap(gate, call, error, go, waysOf);
    return;
  }
  if (!isPromise(passage)) arrive(gate, passage, response, go, waysOf);
  else {
    const goOn = unlessAnswered(response, go);
    passage.then(
      (passage) => arrive(gate, passage, response, goOn, waysOf),
      (error) => mishap(gate, call, error, goOn, waysOf),
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
  passage: Passage<Call>,
  response: ServerResponse,
  go: () => void,
  waysOf: () => Ways<Call>,
): void {
  if (passage === undefined) go();
  else if (passage.rejection) reject(passage, response, waysOf(), gate);
  else letPass(passage, response, go);
}

function mishap<Call extends readonly unknown[]>(
  gate: Gate<Call>,
  call: Call,
  error: unknown,
  go: () => void,
  waysOf: () => Ways<Call>,
): void {
  const outcome = gate.mishap(error, call);
  if (outcome === "allow") {
    go();
    return;
  }
  const ways = waysOf();
  if (!(outcome instanceof Error)) answer(outcome, ways);
  // An error handler would write the headers again, which throws.
  else if (ways.answered()) gate.requestFailed(outcome);
  else ways.fail(outcome);
}

/** Answers in place of the handler, unless somebody has answered meanwhile: a timeout of the application. */
function answer<Call extends readonly unknown[]>({ status, headers, body }: Answer, ways: Ways<Call>): void {
  if (ways.answered()) return;
  ways.head(status, headers);
  ways.send(body);
}

function reject<Call extends readonly unknown[]>(
  { rejection, limited }: Stop<Call>,
  response: ServerResponse,
  ways: Ways<Call>,
  gate: Gate<Call>,
): void {
  const { onLimited } = ways;
  if (!onLimited || !limited || ways.answered()) {
    answer(rejection, ways);
    return;
  }
  const failed = (error: unknown): void => {
    gate.tellError("onLimited", error, limited.call);
    answer(rejection, ways);
  };
  const use = (own: unknown): void => {
    if (ways.answered()) return;
    const sent = ways.sendOwn(own);
    if (sent === "unusable") failed(unusableResult("a text, or a response that it sends itself", own));
    else if (sent === "later") wait();
  };
  // Templates are rendered, and streams are read, after it has returned.
  const wait = (): void =>
    after(
      response,
      MAX_ON_LIMITED_MS,
      () => ways.answered() || failed(lateResult("return a text, or send a response")),
    );
  try {
    rejectWith(response, rejection.status);
    ways.head(rejection.status, withoutType(rejection.headers));
    const own = onLimited(limited);
    // A reply of Fastify has a method then, but is no promise of a body.
    if (!isPromise(own) || own === limited.call[1]) use(own);
    else {
      wait();
      // Whoever has promised to be done, and has not answered, will not do it any more.
      own.then((own) => (own === undefined ? answer(rejection, ways) : use(own))).then(undefined, failed);
    }
  } catch (error) {
    failed(error);
  }
}

function letPass({ told, delayMs, settle }: Pass, response: ServerResponse, go: () => void): void {
  if (response.destroyed) {
    // The client left while it was decided, or has its response: nobody will be told of a close that has been.
    const done = response.writableFinished;
    void settle?.({ status: done ? response.statusCode : undefined, aborted: !done });
    if (delayMs === 0) go();
    return;
  }
  if (told) beforeHead(response, told);
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
export function waysOnNode<Call extends readonly unknown[]>(
  response: ServerResponse,
  onLimited: Ways<Call>["onLimited"],
): Omit<Ways<Call>, "fail"> {
  return {
    onLimited,
    answered: () => response.headersSent || response.writableEnded,
    head(status, headers) {
      response.statusCode = status;
      tellRejection(ofResponse, response, headers);
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
