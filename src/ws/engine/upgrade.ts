/** Requests that ask for a WebSocket, and the answers to those that do not get one. */
import type { ResponseData as Answer } from "../../http/rejection.ts";

/** Whether a request asks for a WebSocket. */
export function isUpgrade(request: Request): boolean {
  return request.headers.get("upgrade")?.toLowerCase() === "websocket";
}

/** The answer to a request that does not, or not rightly, where there is nothing else. */
export function upgradeRequired(): Response {
  const headers = { Connection: "Upgrade", Upgrade: "websocket", "Content-Type": "text/plain; charset=utf-8" };
  return new Response("Only WebSockets here.\n", { status: 426, headers });
}

/** The answer to one that is not let in. */
export function refused({ status, headers, body }: Answer): Response {
  return new Response(body, { status, headers });
}

/** What is used of the socket of Node below a WebSocket. */
export interface RawSocket {
  readonly remoteAddress?: string | undefined;
  readonly destroyed: boolean;
  readonly readableEnded: boolean;
  once(event: "close" | "end", listener: () => void): unknown;
  destroy(): unknown;
}

/** Tells when the client of an upgrade is gone. While that is pending, one that has left unread bytes is not noticed. */
export function whenGone(socket: RawSocket, isPending: () => boolean, gone: () => void): void {
  // Somebody else may have taken their time with it before.
  if (socket.destroyed || socket.readableEnded) {
    gone();
    return;
  }
  socket.once("close", gone);
  // Node leaves a socket half open whose client has left. As long as there is no WebSocket, nobody else closes it.
  socket.once("end", () => void (isPending() && socket.destroy()));
}
