/** Clients of a ws-kit router: in this process, and over sockets of Node.js and Bun. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { AdapterWebSocket, RouterCore } from "@ws-kit/core";
import type { Decision } from "sluice";
import { WebSocket, WebSocketServer } from "ws";
import { dataOf } from "./apps/ws-kit-router.js";

/** A message from the server. */
export interface ServerMessage {
  readonly type: string;
  readonly meta: Record<string, unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: tests compare its members.
  readonly payload?: any;
}

/** A queue whose `take` waits for the next item. */
class Inbox<T> {
  private readonly items: T[] = [];
  private wake: () => void = () => {};

  put(item: T): void {
    this.items.push(item);
    this.wake();
  }

  async take(): Promise<T> {
    while (this.items.length === 0) {
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
    return this.items.shift() as T;
  }

  /** Items that were not taken yet. */
  get rest(): readonly T[] {
    return this.items;
  }
}

/** The client side of a connection. */
export class Client {
  private readonly inbox = new Inbox<ServerMessage>();
  private readonly write: (text: string) => void;

  constructor(write: (text: string) => void) {
    this.write = write;
  }

  onMessage(text: string): void {
    this.inbox.put(JSON.parse(text));
  }

  /** Sends frames as they are. */
  sendRaw(...texts: readonly string[]): void {
    for (const text of texts) this.write(text);
  }

  /** Sends one message of a type for each text. */
  sendMessages(type: string, ...texts: readonly string[]): void {
    for (const text of texts) this.write(JSON.stringify({ type, meta: {}, payload: { text } }));
  }

  /** Sends one message, and returns the next one from the server. */
  request(type = "SAY", text = type): Promise<ServerMessage> {
    this.sendMessages(type, text);
    return this.next();
  }

  /** Sends messages one after the other, each after the reply to the one before. */
  async requestAll(...texts: string[]): Promise<ServerMessage[]> {
    const messages: ServerMessage[] = [];
    for (const text of texts) messages.push(await this.request("SAY", text));
    return messages;
  }

  next(): Promise<ServerMessage> {
    return this.inbox.take();
  }

  /** Returns the next `count` messages from the server. */
  async receive(count: number): Promise<ServerMessage[]> {
    const messages: ServerMessage[] = [];
    while (messages.length < count) messages.push(await this.next());
    return messages;
  }

  /** Returns all messages from the server up to the reply to a free message. */
  async all(): Promise<ServerMessage[]> {
    const messages: ServerMessage[] = [];
    this.sendMessages("FREE", "the end");
    for (;;) {
      const one = await this.next();
      if (one.payload?.text === "the end") return [...messages, ...this.inbox.rest];
      messages.push(one);
    }
  }
}

/** The part of a router that clients use. */
export type Routed = Pick<RouterCore, "websocket">;

/** Connects without a socket. */
export function connectTo(router: Routed, initialData: Record<string, unknown> = {}): Client {
  const socket: AdapterWebSocket = {
    send: (text) => client.onMessage(String(text)),
    close() {},
    readyState: "OPEN",
    initialData,
  };
  const client = new Client((text) => void router.websocket.message(socket, text));
  void router.websocket.open(socket);
  return client;
}

/** Connects over a socket. */
export async function connect(url: string): Promise<Client & { readonly socket: WebSocket }> {
  const socket = new WebSocket(url);
  const client = Object.assign(new Client((text) => socket.send(text)), { socket });
  socket.on("message", (data) => client.onMessage(String(data)));
  await once(socket, "open");
  return client;
}

/** Returns the code and the reason of the close. */
export async function closed({ socket }: { readonly socket: WebSocket }): Promise<[code: number, reason: string]> {
  const [code, reason] = await once(socket, "close");
  return [code, String(reason)];
}

/** Passes the frames of a connection to a router, as an adapter for Node.js would. */
export type Wire = (socket: WebSocket, peer: AdapterWebSocket, request: IncomingMessage) => void;

/** Serves a router with `ws`. */
export async function serveNode(
  router: Routed,
  wire: Wire = (socket, peer) => socket.on("message", (data) => router.websocket.message(peer, String(data))),
): Promise<{ url: string; close(): void }> {
  const server = new WebSocketServer({ host: "127.0.0.1", port: 0 });
  server.on("connection", (socket, request) => {
    const peer: AdapterWebSocket = {
      send: (text) => socket.send(text),
      close: (code, reason) => socket.close(code, reason),
      // ws-kit uses names where `ws` uses numbers.
      get readyState() {
        return (["CONNECTING", "OPEN", "CLOSING", "CLOSED"] as const)[socket.readyState];
      },
      initialData: dataOf(request.url ?? ""),
    };
    void router.websocket.open(peer);
    wire(socket, peer, request);
    socket.on("close", (code, reason) => router.websocket.close(peer, code, String(reason)));
  });
  await once(server, "listening");
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close() {
      for (const socket of server.clients) socket.terminate();
      server.close();
    },
  };
}

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** A Bun process with the routers of `apps/ws-kit-bun.js`. */
export interface OnBun {
  url(app: string): string;
  /** Returns the next decision of a limiter in that process. */
  decision(): Promise<Decision>;
  stop(): Promise<void>;
}

/** Starts Bun, and resolves when it is listening. */
export async function startBun(redisUrl: string): Promise<OnBun> {
  const bun = at("../../runtime-tests/node_modules/@oven/bun-linux-x64/bin/bun");
  const child: ChildProcess = spawn(bun, [at("apps/ws-kit-bun.js")], {
    env: { ...process.env, REDIS_URL: redisUrl },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  const lines = new Inbox<string>();
  createInterface(child.stdout as NodeJS.ReadableStream).on("line", (line) => lines.put(line));
  const ports = await Promise.race([
    lines.take().then(JSON.parse),
    ended.then(([code]) => Promise.reject(new Error(`Bun ended with ${code}`))),
  ]);
  return {
    url: (app) => `ws://127.0.0.1:${ports[app]}/`,
    decision: async () => JSON.parse(await lines.take()),
    async stop() {
      child.kill();
      await ended;
    },
  };
}
