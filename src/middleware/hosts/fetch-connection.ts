/** What a server of `Request` handlers on Node knows about the connection of a request. */
import type { ServerResponse } from "node:http";
import { hasDisconnected, isClosed, onceClosed } from "./node-close.ts";
import { watchUnreadBody } from "./unread-body.ts";

/** The connection of a request. The signal of a request is not aborted in a pipeline, for example. */
export interface FetchConnection {
  /** Calls a function when the response was sent, or the connection was closed before. */
  onClose(callback: () => void): void;
  /** Detects disconnects even if the request body is not read. Calls `onUnseen` if it can't tell for a minute. */
  watchUnreadBody(onUnseen: (() => void) | undefined): void;
  /** Whether the response was sent. */
  isComplete(): boolean;
  /** Whether the client disconnected before the response had ended. */
  hasDisconnected(): boolean;
}

/** The connection of a Node response; `undefined` on other runtimes. */
export function connectionOf(outgoing: ServerResponse | undefined): FetchConnection | undefined {
  if (typeof outgoing?.once !== "function") return undefined;
  return {
    onClose(callback) {
      if (isClosed(outgoing)) callback();
      else onceClosed(outgoing, callback);
    },
    watchUnreadBody: (onUnseen) => watchUnreadBody(outgoing, onUnseen),
    isComplete: () => outgoing.writableFinished,
    hasDisconnected: () => hasDisconnected(outgoing),
  };
}
