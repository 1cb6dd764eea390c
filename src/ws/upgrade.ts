/** Requests that ask for a WebSocket, and the answer to those that do not. */

/** Whether a request asks for a WebSocket. */
export function isUpgrade(request: Request): boolean {
  return request.headers.get("upgrade")?.toLowerCase() === "websocket";
}

/** The answer to a request that does not, where there is nothing else. */
export function upgradeRequired(): Response {
  const headers = { Connection: "Upgrade", Upgrade: "websocket", "Content-Type": "text/plain; charset=utf-8" };
  return new Response("Only WebSockets here.\n", { status: 426, headers });
}
