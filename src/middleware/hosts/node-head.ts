/** The head of a response on Node: how its headers are reached, and how to be there when it is sent. */
import type { ServerResponse } from "node:http";
import { addRateLimitHeaders, type PendingHeaders, type ResponseHead } from "../../http/response.ts";

/** A response's own headers. */
export const ofResponse: ResponseHead<ServerResponse> = {
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
  if (!Array.isArray(given)) {
    const headers: Record<string, unknown> = {};
    for (const name of Object.keys(given)) headers[lowerCase(name)] = given[name as keyof typeof given];
    return headers;
  }
  const list = Array.isArray(given[0]) ? given.flat() : given;
  // Without a prototype: a header may be called constructor.
  const headers: Record<string, unknown> = Object.create(null);
  for (let i = 0; i < list.length; i += 2) {
    const name = lowerCase(String(list[i]));
    headers[name] = name in headers ? [headers[name], list[i + 1]].flat() : list[i + 1];
  }
  return headers;
}

/**
 * Adds the fields at the last moment: whether they may be sent depends on the status and on the headers that the
 * handler sets. Every way to send a response goes through `writeHead`.
 */
export function beforeHead(response: ServerResponse, pendingHeaders: PendingHeaders): void {
  const { writeHead } = response;
  response.writeHead = ((status: number, ...rest: unknown[]) => {
    response.writeHead = writeHead;
    const last = rest.length - 1;
    const given = rest[last];
    if (typeof given === "object" && given !== null) {
      const headers = inLowerCase(given);
      addRateLimitHeaders(ofGiven, { response, headers }, status, pendingHeaders);
      rest[last] = headers;
    } else {
      addRateLimitHeaders(ofResponse, response, status, pendingHeaders);
    }
    return writeHead.call(response, status, ...(rest as []));
  }) as ServerResponse["writeHead"];
}

/** Replaces a status below 400, so a rejection stays an error: a status below 400 is replaced. */
export function rejectWith(response: ServerResponse, status: number): void {
  const { writeHead } = response;
  response.writeHead = ((given: number, ...rest: unknown[]) => {
    response.writeHead = writeHead;
    return writeHead.call(response, given < 400 ? status : given, ...(rest as []));
  }) as ServerResponse["writeHead"];
}
