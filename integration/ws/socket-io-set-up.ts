/** A guarded Socket.IO server, for the tests of `guardSocketIo`. */
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { memoryRateLimiter } from "sluice";
import { guardSocketIo, type SocketIoOptions } from "sluice/socket.io";
import { Server, type ServerOptions, type Socket } from "socket.io";
import { io, type ManagerOptions, type SocketOptions } from "socket.io-client";
import { onTestFinished } from "vitest";

/** Starts a guarded server. */
export async function serve(options: SocketIoOptions<unknown, IncomingMessage>, settings: Partial<ServerOptions> = {}) {
  const server = createServer();
  const sockets = new Server(server, settings);
  const guard = guardSocketIo<unknown, IncomingMessage>(sockets, options);
  const received: unknown[] = [];
  const listen = (socket: Socket) => {
    socket.on("say", (n) => received.push(n));
    socket.on("ask", (n, ack) => ack(n + 1));
  };
  sockets.on("connection", listen);
  sockets.of("/news").on("connection", listen);
  sockets.of(/^\/room-\d+$/).on("connection", listen);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  onTestFinished(async () => {
    await sockets.close();
  });
  const connect = async (more: Partial<ManagerOptions & SocketOptions> = {}, namespace = "/") => {
    const client = io(url + namespace, { reconnection: false, forceNew: true, ...more });
    onTestFinished(() => void client.disconnect());
    await new Promise<void>((resolve, reject) => {
      client.once("connect", resolve);
      client.once("connect_error", (error) => reject(error));
    });
    return client;
  };
  return { guard, received, connect, url, server, sockets };
}

export const few = (capacity: number) => memoryRateLimiter({ capacity, tokensPerSecond: "1/h" });
