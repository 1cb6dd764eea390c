/** What all servers on Node's `http` have in common: how a request is held, how it is answered, when it is done. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type ResponseHead, type Told, tellFigures, tellRejection } from "../http/response.ts";
import { type Answer, withoutType } from "../http/too-many-requests.ts";
import { type Gate, isPromise, type Pass, type Passage } from "./gate.ts";
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
  answer(answer: Answer, limited?: Decided<Call>): void;
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
      else ways.answer(answer);
    } catch (another) {
      ways.fail(another);
    }
  };
  const arrive = (passage: Passage<Call>): void => {
    if (passage === undefined) ways.go();
    else if (passage.rejection) ways.answer(passage.rejection, passage.limited);
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
  limited: Decided<Call> | undefined,
  onLimited: ((limited: Decided<Call>) => void) | undefined,
): void {
  response.statusCode = status;
  if (limited && onLimited) {
    tellRejection(ofResponse, response, withoutType(headers));
    onLimited(limited);
  } else {
    tellRejection(ofResponse, response, headers);
    response.end(body);
  }
}

/** Headers as they are given to `writeHead`, over those that the response has. */
interface Given {
  readonly response: ServerResponse;
  readonly headers: Record<string, unknown>;
}

const ofGiven: ResponseHead<Given> = {
  get({ response, headers }, name) {
    const found = nameIn(headers, name);
    return found === undefined ? ofResponse.get(response, name) : String(headers[found]);
  },
  set({ headers }, name, value) {
    headers[nameIn(headers, name) ?? name] = value;
  },
  remove({ response, headers }, name) {
    delete headers[nameIn(headers, name) ?? name];
    response.removeHeader(name);
  },
};

function nameIn(headers: Record<string, unknown>, name: string): string | undefined {
  const lower = name.toLowerCase();
  if (lower in headers) return lower;
  for (const own in headers) if (own.toLowerCase() === lower) return own;
  return undefined;
}

/**
 * Adds the fields at the last moment: whether they may be told depends on the status and on the headers that the
 * handler sets. Every way to send a response goes through `writeHead`.
 */
function beforeHead(response: ServerResponse, told: Told): void {
  const { writeHead } = response;
  response.writeHead = ((status: number, ...rest: unknown[]) => {
    response.writeHead = writeHead;
    const last = rest.length - 1;
    const given = rest[last];
    if (typeof given === "object" && given !== null && !Array.isArray(given)) {
      // A copy: what was given may be a constant of the application.
      const headers = { ...given };
      tellFigures(ofGiven, { response, headers }, status, told);
      rest[last] = headers;
    } else {
      tellFigures(ofResponse, response, status, told);
    }
    return writeHead.call(response, status, ...(rest as []));
  }) as ServerResponse["writeHead"];
}
