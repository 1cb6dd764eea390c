/** What all servers on Node's `http` have in common: how a request is held, how it is answered, when it is done. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type ResponseHead, type Told, tellFigures, tellRejection } from "../http/response.ts";
import { type Answer, withoutType } from "../http/too-many-requests.ts";
import { type Gate, isPromise, type Pass, type Passage, type Stop } from "./gate.ts";
import type { Decided } from "./options.ts";

/** A header of a request; lines of one name are joined. */
export function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "object" ? value.join(", ") : value;
}

/** The ways that a request can go. */
export interface Ways<Call extends readonly unknown[]> {
  /** It goes on. */
  go(): void;
  /** It is answered in place of the handler. It was limited, or it could not be decided about. */
  answer(answer: Answer, limited?: Decided<Call>): unknown;
  /** It could not be decided about, and the server is to deal with that. */
  fail(error: unknown): void;
}

/** Takes a request through the gate. */
export function enterOnNode<Call extends readonly unknown[]>(
  gate: Gate<Call>,
  call: Call,
  response: ServerResponse,
  ways: Ways<Call>,
): void {
  const mishap = (error: unknown): void => {
    try {
      const answer = gate.mishap(error, call);
      if (answer === undefined) ways.fail(error);
      else if (answer === "allow") ways.go();
      else void ways.answer(answer);
    } catch (another) {
      ways.fail(another);
    }
  };
  const arrive = (passage: Passage<Call>): void => {
    if (passage === undefined) ways.go();
    else if (passage.rejection) reject(passage, ways, mishap);
    else letPass(passage, response, ways.go);
  };
  let passage: Passage<Call> | Promise<Passage<Call>>;
  try {
    passage = gate.enter(call);
  } catch (error) {
    mishap(error);
    return;
  }
  if (isPromise(passage)) passage.then(arrive, mishap);
  else arrive(passage);
}

/** What `onLimited` throws or rejects with is dealt with like other errors: the request must not hang. */
function reject<Call extends readonly unknown[]>(
  { rejection, limited }: Stop<Call>,
  { answer }: Ways<Call>,
  mishap: (error: unknown) => void,
): void {
  try {
    const answered = answer(rejection, limited);
    if (isPromise(answered)) answered.then(undefined, mishap);
  } catch (error) {
    mishap(error);
  }
}

function letPass({ told, delayMs, settle }: Pass, response: ServerResponse, go: () => void): void {
  if (told) beforeHead(response, told);
  if (settle) {
    response.once("close", () => {
      const aborted = !response.writableFinished;
      void settle({ status: response.headersSent ? response.statusCode : undefined, aborted });
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

/** A response's own headers. */
const ofResponse: ResponseHead<ServerResponse> = {
  get(response, name) {
    const value = response.getHeader(name);
    return value === undefined || typeof value === "string"
      ? value
      : Array.isArray(value)
        ? value.join(", ")
        : `${value}`;
  },
  set: (response, name, value) => void response.setHeader(name, value),
  remove: (response, name) => response.removeHeader(name),
};

/** Sends an answer; with `onLimited` only its head is written, and the type of the body is left to who writes that. */
export function answerOnNode<Call extends readonly unknown[]>(
  response: ServerResponse,
  { status, headers, body }: Answer,
  limited?: Decided<Call>,
  onLimited?: (limited: Decided<Call>) => unknown,
): unknown {
  response.statusCode = status;
  if (limited && onLimited) {
    tellRejection(ofResponse, response, withoutType(headers));
    return onLimited(limited);
  }
  tellRejection(ofResponse, response, headers);
  return void response.end(body);
}

/** Headers as they are given to `writeHead`, by their names in lower case, over those that the response has. */
interface Given {
  readonly response: ServerResponse;
  readonly headers: Record<string, unknown>;
}

const ofGiven: ResponseHead<Given> = {
  get({ response, headers }, name) {
    const value = headers[lowerCase(name)];
    return value === undefined ? ofResponse.get(response, name) : String(value);
  },
  set({ headers }, name, value) {
    headers[lowerCase(name)] = value;
  },
  remove({ response, headers }, name) {
    delete headers[lowerCase(name)];
    response.removeHeader(name);
  },
};

/** Applications use few names, and again with every response. */
const lowerCased = new Map<string, string>();

function lowerCase(name: string): string {
  let found = lowerCased.get(name);
  if (found === undefined) {
    if (lowerCased.size >= 1000) lowerCased.clear();
    lowerCased.set(name, (found = name.toLowerCase()));
  }
  return found;
}

/** A copy: what is given may be a constant of the application. Names and values may also stand in turn in a list. */
function inLowerCase(given: object): Record<string, unknown> {
  const headers: Record<string, unknown> = {};
  if (!Array.isArray(given)) {
    for (const name in given) headers[lowerCase(name)] = given[name as keyof typeof given];
    return headers;
  }
  const list = given.flat();
  for (let i = 0; i < list.length; i += 2) {
    const name = lowerCase(String(list[i]));
    headers[name] = name in headers ? [headers[name], list[i + 1]].flat() : list[i + 1];
  }
  return headers;
}

/**
 * Adds the fields at the last moment: whether they may be told depends on the status and on the headers that the
 * handler sets. Every way to send a response goes through `writeHead`.
 */
export function beforeHead(response: ServerResponse, told: Told): void {
  const { writeHead } = response;
  response.writeHead = ((status: number, ...rest: unknown[]) => {
    response.writeHead = writeHead;
    const last = rest.length - 1;
    const given = rest[last];
    if (typeof given === "object" && given !== null) {
      const headers = inLowerCase(given);
      tellFigures(ofGiven, { response, headers }, status, told);
      rest[last] = headers;
    } else {
      tellFigures(ofResponse, response, status, told);
    }
    return writeHead.call(response, status, ...(rest as []));
  }) as ServerResponse["writeHead"];
}
