/** Mounts a handler of `Request` and `Response`, such as the dashboard, on servers that use Node's `http`. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { optionError } from "../base/errors.ts";
import { describeError, emitProcessWarning } from "../base/warnings.ts";
import { plainProblem } from "../http/rejection.ts";
import { headerOf } from "./hosts/node.ts";
import { isClosed, onceClosed } from "./hosts/node-close.ts";
import { requestOf } from "./hosts/node-request.ts";
import { watchUnreadBody } from "./hosts/unread-body.ts";
import type { NodeHandler } from "./node.ts";

/**
 * Mounts a `Request` handler on `node:http`, Express or Fastify. Bodies are streamed, and a client that disconnects cancels
 * the stream of the response. If the handler fails, the response is a 500 without details.
 */
export function toNodeHandler(handler: (request: Request) => Response | Promise<Response>): NodeHandler {
  if (typeof handler !== "function") throw optionError("invalid-option", "handler", "a function", handler);
  let hasWarned = false;
  const failed = (error: unknown): void => {
    if (hasWarned) return;
    hasWarned = true;
    emitProcessWarning("SLUICE_REQUEST_FAILED", `The handler of toNodeHandler threw "${describeError(error)}".`);
  };
  return (incoming, outgoing) => {
    void serve(handler, incoming, outgoing).catch((error) => {
      failed(error);
      sendProblem(500, "Internal Server Error", incoming, outgoing);
    });
  };
}

async function serve(
  handler: (request: Request) => Response | Promise<Response>,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const aborter = new AbortController();
  const request = requestOf(incoming, aborter.signal);
  if (!request) return sendProblem(400, "Bad Request", incoming, outgoing);
  onceClosed(outgoing, () => {
    if (!outgoing.writableFinished) aborter.abort();
  });
  watchUnreadBody(outgoing);
  const response = await handler(request);
  if (isClosed(outgoing) || outgoing.headersSent) {
    await response.body?.cancel();
    return;
  }
  writeHead(response, outgoing);
  const isEmpty = response.body === null || request.method === "HEAD";
  if (isEmpty) {
    await response.body?.cancel();
    outgoing.end();
  } else await pipe(response.body as ReadableStream<Uint8Array>, outgoing);
}

function writeHead({ status, headers }: Response, outgoing: ServerResponse): void {
  outgoing.statusCode = status;
  headers.forEach((value, name) => {
    if (name !== "set-cookie") outgoing.setHeader(name, value);
  });
  const cookies = headers.getSetCookie();
  // Middleware may have set others.
  const before = [outgoing.getHeader("set-cookie") ?? []].flat().map(String);
  if (cookies.length > 0) outgoing.setHeader("set-cookie", [...before, ...cookies]);
}

/** Writes a stream, no faster than the client reads. */
async function pipe(body: ReadableStream<Uint8Array>, outgoing: ServerResponse): Promise<void> {
  const reader = body.getReader();
  let resume = (): void => {};
  onceClosed(outgoing, () => {
    reader.cancel().catch(() => {});
    resume();
  });
  // The client gets the head before the first chunk, as it expects for events.
  outgoing.flushHeaders();
  for (;;) {
    const { done, value } = await reader.read();
    if (done || isClosed(outgoing)) break;
    if (!outgoing.write(value)) {
      await new Promise<void>((resolve) => {
        resume = resolve;
        outgoing.once("drain", resolve);
      });
    }
    // Added by middleware that compresses: sends what it holds back.
    (outgoing as { flush?(): void }).flush?.();
  }
  outgoing.end();
}

/** `http2.constants.NGHTTP2_INTERNAL_ERROR`, without loading that module. */
const HTTP2_INTERNAL_ERROR = 2;

/** Sends an error without details. A response that has been started can only be cut off. */
function sendProblem(status: number, title: string, incoming: IncomingMessage, outgoing: ServerResponse): void {
  if (outgoing.headersSent) {
    // Over HTTP/2, a response that is destroyed looks complete.
    const { stream } = outgoing as { stream?: { close(code: number): void } };
    if (stream) stream.close(HTTP2_INTERNAL_ERROR);
    else outgoing.destroy();
    return;
  }
  const { headers, body } = plainProblem(status, title, undefined, headerOf(incoming, "accept"));
  outgoing.statusCode = status;
  for (const [name, value] of Object.entries(headers)) outgoing.setHeader(name, value);
  outgoing.end(incoming.method === "HEAD" ? undefined : body);
}
