/** Reads and changes the head of a Node response, up to the moment at which it is sent. */
import type { ServerResponse } from "node:http";
import {
  addRateLimitHeaders,
  type PendingHeaders,
  type ResponseFields,
  type ResponseHead,
  setFields,
} from "../../http/response.ts";

/** The headers that are set on a response. */
export const responseHead: ResponseHead<ServerResponse> = {
  get(response, name) {
    const value = response.getHeader(name);
    return value === undefined || typeof value === "string"
      ? value
      : Array.isArray(value)
        ? value.join(", ")
        : `${value}`;
  },
  set: (response, name, value) => void response.setHeader(name, value),
  append: (response, name, value) => void response.setHeader(name, appended(response.getHeader(name), value)),
  remove: (response, name) => response.removeHeader(name),
};

function appended(before: unknown, value: string): string[] {
  return [...(before === undefined ? [] : [before].flat().map(String)), value];
}

/** The headers passed to `writeHead`, by lower-case name; they override those that are set on the response. */
interface WriteHeadArgs {
  readonly response: ServerResponse;
  readonly headers: Record<string, unknown>;
}

const writeHeadHead: ResponseHead<WriteHeadArgs> = {
  get({ response, headers }, name) {
    const value = headers[lowerCase(name)];
    return value === undefined ? responseHead.get(response, name) : String(value);
  },
  set({ headers }, name, value) {
    headers[lowerCase(name)] = value;
  },
  append({ response, headers }, name, value) {
    headers[lowerCase(name)] = appended(headers[lowerCase(name)] ?? response.getHeader(name), value);
  },
  remove({ response, headers }, name) {
    delete headers[lowerCase(name)];
    response.removeHeader(name);
  },
};

const MAX_CACHED_NAMES = 1000;
/** Lower-case header names. An application uses few, and repeats them with every response. */
const lowerCaseNames = new Map<string, string>();

function lowerCase(name: string): string {
  let found = lowerCaseNames.get(name);
  if (found === undefined) {
    if (lowerCaseNames.size >= MAX_CACHED_NAMES) lowerCaseNames.clear();
    lowerCaseNames.set(name, (found = name.toLowerCase()));
  }
  return found;
}

/** Copies the headers, which may be a constant of the application. They may also be a flat list or a list of pairs. */
export function copyHeaders(given: object): Record<string, unknown> {
  if (!Array.isArray(given)) {
    const headers: Record<string, unknown> = {};
    for (const name of Object.keys(given)) headers[lowerCase(name)] = given[name as keyof typeof given];
    return headers;
  }
  const list = Array.isArray(given[0]) ? given.flat() : given;
  // Without a prototype, because a header may be named constructor.
  const headers: Record<string, unknown> = Object.create(null);
  for (let i = 0; i < list.length; i += 2) {
    const name = lowerCase(String(list[i]));
    headers[name] = name in headers ? [headers[name], list[i + 1]].flat() : list[i + 1];
  }
  return headers;
}

/** Adds RateLimit fields when the head is written: status and headers of the handler determine whether they may be sent. */
export function beforeHead(response: ServerResponse, pendingHeaders: PendingHeaders): void {
  editHead(response, (head, target, status) => addRateLimitHeaders(head, target, status, pendingHeaders));
}

/** Sets fields when the head is written, because the handler may replace them before. */
export function setBeforeHead(response: ServerResponse, fields: ResponseFields): void {
  editHead(response, (head, target) => setFields(head, target, fields));
}

/** Changes the headers of a response. */
type EditHead = <R>(head: ResponseHead<R>, target: R, status: number) => void;

/** Changes the headers when the head is written. Every method that sends a response calls `writeHead`. */
function editHead(response: ServerResponse, edit: EditHead): void {
  const { writeHead } = response;
  response.writeHead = ((status: number, ...rest: unknown[]) => {
    response.writeHead = writeHead;
    const last = rest.length - 1;
    const given = rest[last];
    if (typeof given === "object" && given !== null) {
      const headers = copyHeaders(given);
      edit(writeHeadHead, { response, headers }, status);
      rest[last] = headers;
    } else edit(responseHead, response, status);
    return writeHead.call(response, status, ...(rest as []));
  }) as ServerResponse["writeHead"];
}

/** Replaces a status below 400 when the head is written, so a rejection stays an error. */
export function rejectWith(response: ServerResponse, status: number): void {
  const { writeHead } = response;
  response.writeHead = ((given: number, ...rest: unknown[]) => {
    response.writeHead = writeHead;
    return writeHead.call(response, given < 400 ? status : given, ...(rest as []));
  }) as ServerResponse["writeHead"];
}

/**
 * Sends a problem document as one: frameworks label objects as JSON. A body of another length is the application's own,
 * and keeps its type.
 */
export function asProblemDocument(response: ServerResponse, body: string): void {
  const length = String(new TextEncoder().encode(body).length);
  editHead(response, (head, target) => {
    const isSame = head.get(target, "content-length") === length;
    if (!isSame || !head.get(target, "content-type")?.startsWith("application/json")) return;
    head.set(target, "content-type", "application/problem+json");
    // Express adds one to every body.
    head.remove(target, "etag");
  });
}
