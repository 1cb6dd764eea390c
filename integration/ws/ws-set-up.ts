/** A guarded `ws` server and a raw client, for the tests of `guardWs`. */
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { memoryRateLimiter } from "sluice";
import { guardWs, type WsGuardOptions } from "sluice/ws";
import { onTestFinished } from "vitest";
import { type ServerOptions, WebSocket, WebSocketServer } from "ws";

export interface Data {
  userId?: string;
}

/** Starts a guarded server that records the frames it handles. */
export async function serve(
  options: WsGuardOptions<Data, IncomingMessage>,
  settings: ServerOptions = {},
  how: "server" | "noServer" = "server",
) {
  const server = createServer();
  const wss = new WebSocketServer(how === "server" ? { server, ...settings } : { noServer: true, ...settings });
  const guard = guardWs<Data, IncomingMessage>(wss, options);
  const handled: unknown[] = [];
  wss.on("connection", (socket, request) => guard.attach(socket, request, (frame) => handled.push(frame)));
  if (how === "noServer") {
    server.on("upgrade", (request, socket, head) => {
      wss.handleUpgrade(request, socket, head, (client) => wss.emit("connection", client, request));
    });
  }
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  onTestFinished(async () => {
    for (const client of wss.clients) client.terminate();
    wss.close();
    server.close();
  });
  const connected = async (headers: Record<string, string> = {}): Promise<WebSocket> => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}`, { headers });
    onTestFinished(() => socket.terminate());
    await new Promise<void>((resolve, reject) => {
      socket.once("open", () => resolve());
      socket.once("unexpected-response", (_, response) => {
        let body = "";
        response.on("data", (chunk) => {
          body += chunk;
        });
        response.on("end", () => reject(Object.assign(new Error(`${response.statusCode}`), { response, body })));
      });
      socket.on("error", reject);
    });
    return socket;
  };
  return { handled, connect: connected, port, guard, wss };
}

export const few = (capacity: number) => memoryRateLimiter({ capacity, tokensPerSecond: "1/h" });

/** Connects a client that sends the upgrade request and nothing else. */
export function connectRaw(port: number, headers = "") {
  const socket = connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  socket.write(
    "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
      `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n${headers}\r\n`,
  );
  return { socket, upgraded: once(socket, "data") };
}
