/** What all servers on Node's `http` have in common: how a request is held, how it is answered, when it is done. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { isPromise } from "../core/maybe-promise.ts";
import type { HeaderFields } from "../http/headers.ts";
import { tellRejection } from "../http/response.ts";
import { type Answer, withoutType } from "../http/too-many-requests.ts";
import type { Gate, Pass, Passage, Stop } from "./gate.ts";
import { beforeHead, ofResponse } from "./node-head.ts";
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
  /** Sends what `onLimited` gave, if that is something to send. */
  sendOwn(own: unknown): void;
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
    passage.then(
      (passage) => arrive(gate, passage, response, go, waysOf),
      (error) => mishap(gate, call, error, go, waysOf),
    );
  }
}

function arrive<Call extends readonly unknown[]>(
  gate: Gate<Call>,
  passage: Passage<Call>,
  response: ServerResponse,
  go: () => void,
  waysOf: () => Ways<Call>,
): void {
  if (passage === undefined) go();
  else if (passage.rejection) reject(passage, waysOf(), gate);
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
  if (outcome === "allow") go();
  else if (outcome instanceof Error) waysOf().fail(outcome);
  else answer(outcome, waysOf());
}

/** Answers in place of the handler, unless somebody has answered meanwhile: a timeout of the application. */
function answer<Call extends readonly unknown[]>({ status, headers, body }: Answer, ways: Ways<Call>): void {
  if (ways.answered()) return;
  ways.head(status, headers);
  ways.send(body);
}

function reject<Call extends readonly unknown[]>(
  { rejection, limited }: Stop<Call>,
  ways: Ways<Call>,
  gate: Gate<Call>,
): void {
  const { onLimited } = ways;
  if (!onLimited || ways.answered()) {
    answer(rejection, ways);
    return;
  }
  const failed = (error: unknown): void => {
    gate.tellError(error, limited.call);
    answer(rejection, ways);
  };
  try {
    ways.head(rejection.status, withoutType(rejection.headers));
    const own = onLimited(limited);
    // Whoever has promised to be done, and has not answered, will not do it any more.
    if (isPromise(own))
      own.then((own) => (own === undefined ? answer(rejection, ways) : ways.sendOwn(own))).then(undefined, failed);
    else ways.sendOwn(own);
  } catch (error) {
    failed(error);
  }
}

function letPass({ told, delayMs, settle }: Pass, response: ServerResponse, go: () => void): void {
  if (response.destroyed) {
    // The client left while it was decided: nobody will be told of a close that has been.
    void settle?.({ status: undefined, aborted: true });
    if (delayMs === 0) go();
    return;
  }
  if (told) beforeHead(response, told);
  if (settle) {
    let finished = false;
    response.once("finish", () => (finished = true));
    response.once("close", () => {
      void settle({ status: response.headersSent ? response.statusCode : undefined, aborted: !finished });
    });
  }
  if (delayMs > 0) hold(response, delayMs, go);
  else go();
}

/** Goes on after a while, unless the client leaves first. */
function hold(response: ServerResponse, delayMs: number, go: () => void): void {
  const leave = (): void => clearTimeout(timer);
  const timer = setTimeout(() => {
    response.off("close", leave);
    go();
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
      if (typeof own === "string") response.end(own);
    },
  };
}
