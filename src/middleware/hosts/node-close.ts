/** Finds out when the connection of a Node response is closed, and when a handler has ended after that. */
import type { ServerResponse } from "node:http";
import { isPromise } from "../../base/maybe-promise.ts";
import { describeError, emitWarningOnce } from "../../base/warnings.ts";
import type { HandlerState, OnFinish } from "../gate/gate-result.ts";

/** The member of a socket or session that is used. */
interface Connection {
  once(event: "close" | "aborted", listener: () => void): unknown;
}

/** The members of an HTTP/2 stream that are used. */
interface Http2Stream extends Connection {
  readonly closed: boolean;
  readonly destroyed: boolean;
  readonly session?: Connection | undefined;
}

/** How often an HTTP/2 stream with a hold is checked, in ms. */
const POLL_MS = 1000;

/** Whether the connection of a response is closed, so that `close` will not be emitted again, or never was. */
export function isClosed(response: ServerResponse): boolean {
  if (response.destroyed) return true;
  // An HTTP/2 response has no `destroyed`, but its stream has.
  const stream = streamOf(response);
  if (stream) return stream.destroyed || stream.closed;
  // A response that is queued behind others of a pipeline has no socket yet, but its request has.
  return response.req?.socket?.destroyed ?? false;
}

/** Whether the client disconnected before the application had ended the response. */
export function hasDisconnected(response: ServerResponse): boolean {
  return isClosed(response) && !response.writableEnded;
}

/**
 * Calls a function once, when the response or its connection is closed. A pipelined response that is queued behind others
 * emits no `close` when the client disconnects.
 */
export function onceClosed(response: ServerResponse, callback: () => void): void {
  const stream = streamOf(response);
  const connection = asEmitter<Connection>(stream ? stream.session : response.req?.socket);
  let isCalled = false;
  const close = (): void => {
    if (isCalled) return;
    isCalled = true;
    clearInterval(poll);
    if (connection) connections.get(connection)?.delete(close);
    callback();
  };
  response.once("close", close);
  // Responses of serverless adapters and mocks have no connection, and may emit nothing else.
  if (!connection) response.once("finish", close);
  stream?.once("aborted", close);
  if (connection) onConnectionClose(connection, close);
  // Node 20 to 24 emit nothing if the client resets a stream with NO_ERROR while writes wait for flow control.
  const poll = stream && setInterval(() => stream.closed && close(), POLL_MS);
  poll?.unref?.();
}

/** The callbacks of open responses by connection: one listener each would exceed the maximum with a pipeline. */
const connections = /* @__PURE__ */ new WeakMap<Connection, Set<() => void>>();

function onConnectionClose(connection: Connection, callback: () => void): void {
  let callbacks = connections.get(connection);
  if (!callbacks) {
    const added = new Set<() => void>();
    connections.set(connection, (callbacks = added));
    connection.once("close", () => {
      for (const callback of [...added]) callback();
    });
  }
  callbacks.add(callback);
}

/**
 * Runs a handler, and calls `onFinish` when its response is closed. If the client has disconnected, the end of the handler
 * is that of the promise that it returned, or of its response.
 */
export function runUntilClose(
  response: ServerResponse,
  { onFinish, isHeld }: { readonly onFinish: OnFinish; readonly isHeld: boolean },
  handler: () => unknown,
): void {
  let isFinished = false;
  let returned: unknown;
  response.once("finish", () => (isFinished = true));
  onceClosed(response, () => {
    // An HTTP/2 response emits "finish" after a disconnect as well.
    const aborted = !isFinished || !response.writableEnded;
    const status = response.headersSent ? response.statusCode : undefined;
    void onFinish({ status, aborted }, aborted && isHeld ? stateOf(response, returned) : undefined);
  });
  returned = handler();
}

/** The handler of a disconnected client: it ends its response, stops to pipe into it, or its promise settles. */
function stateOf(response: ServerResponse, returned: unknown): HandlerState {
  if (response.writableEnded) return "returned";
  return new Promise<void>((resolve) => {
    const { end } = response;
    response.end = ((...args: [never, never]) => {
      response.end = end;
      resolve();
      return end.apply(response, args);
    }) as ServerResponse["end"];
    response.once("unpipe", () => resolve());
    if (isPromise(returned))
      returned.then(
        () => resolve(),
        (error) => rejected(error, resolve),
      );
  });
}

/** Reports the rejection of a handler: it counts as handled, because its end is awaited. */
function rejected(error: unknown, resolve: () => void): void {
  resolve();
  const message = `A handler rejected after its client had disconnected: ${describeError(error)}.`;
  emitWarningOnce("rejected handler", "SLUICE_CALLBACK_FAILED", message);
}

/** The stream of an HTTP/2 response. An application may have set a member of that name. */
function streamOf(response: ServerResponse): Http2Stream | undefined {
  return asEmitter<Http2Stream>((response as { stream?: unknown }).stream);
}

function asEmitter<T extends Connection>(value: unknown): T | undefined {
  return typeof (value as Partial<T> | undefined)?.once === "function" ? (value as T) : undefined;
}
