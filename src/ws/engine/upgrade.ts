/** Recognises upgrade requests, builds responses to rejected ones, and detects clients that disconnect meanwhile. */
import type { ProblemResponse } from "../../http/rejection.ts";

/** Whether a request is an upgrade to a WebSocket. */
export function isUpgrade(request: Request): boolean {
  return request.headers.get("upgrade")?.toLowerCase() === "websocket";
}

/** The 426 response to a request that is not a valid WebSocket upgrade. */
export function upgradeRequired(): Response {
  const headers = { Connection: "Upgrade", Upgrade: "websocket", "Content-Type": "text/plain; charset=utf-8" };
  return new Response("This endpoint accepts only WebSocket connections.\n", { status: 426, headers });
}

/** Turns response data into a `Response`. */
export function toResponse({ status, headers, body }: ProblemResponse): Response {
  return new Response(body, { status, headers });
}

/** The part of a Node.js socket that the guard uses while a request is upgraded. */
export interface RawSocket {
  /** The IP address of the other end. */
  readonly remoteAddress?: string | undefined;
  /** Whether the socket is destroyed. */
  readonly destroyed: boolean;
  /** Whether the other end has closed its side. */
  readonly readableEnded: boolean;
  /** Listens for the end of the socket. */
  once(event: "close" | "end", listener: () => void): unknown;
  /** Closes the socket at once. */
  destroy(): unknown;
}

/**
 * Calls `listener` when the client of an upgrade request has disconnected. While the upgrade is pending the socket is not
 * read, so a client that disconnected with unread bytes in the buffer is not detected.
 */
export function onDisconnect(socket: RawSocket, isPending: () => boolean, listener: () => void): void {
  // The client may have disconnected during earlier asynchronous work of the application.
  if (socket.destroyed || socket.readableEnded) {
    listener();
    return;
  }
  socket.once("close", listener);
  // Node.js keeps the socket half open after the client ends its side. Before the upgrade, nothing else destroys it.
  socket.once("end", () => void (isPending() && socket.destroy()));
}
