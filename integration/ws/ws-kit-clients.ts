/** Clients of a router of ws-kit: in this process, and over real sockets of Node and Bun. */
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

/** What a client is told. */
export interface Told {
  readonly type: string;
  readonly meta: Record<string, unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: it is compared, member by member.
  readonly payload?: any;
}

/** What comes, taken in the order in which it came, and awaited if it did not come yet. */
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

  /** What has come and was not taken. */
  get rest(): readonly T[] {
    return this.items;
  }
}

/** The client's end of a connection. */
export class Client {
  private readonly inbox = new Inbox<Told>();
  private readonly write: (text: string) => void;

  constructor(write: (text: string) => void) {
    this.write = write;
  }

  hear(text: string): void {
    this.inbox.put(JSON.parse(text));
  }

  /** Sends as it is. */
  raw(...texts: readonly string[]): void {
    for (const text of texts) this.write(text);
  }

  /** Sends messages of a type, one for each text. */
  say(type: string, ...texts: readonly string[]): void {
    for (const text of texts) this.write(JSON.stringify({ type, meta: {}, payload: { text } }));
  }

  /** Sends one message, and is told something. */
  ask(type = "SAY", text = type): Promise<Told> {
    this.say(type, text);
    return this.next();
  }

  /** Says one after the other, so that none waits for its turn. */
  async askAll(...texts: string[]): Promise<Told[]> {
    const told: Told[] = [];
    for (const text of texts) told.push(await this.ask("SAY", text));
    return told;
  }

  next(): Promise<Told> {
    return this.inbox.take();
  }

  /** The next so many answers. */
  async hears(count: number): Promise<Told[]> {
    const told: Told[] = [];
    while (told.length < count) told.push(await this.next());
    return told;
  }

  /** Everything that was told and not taken before a message is answered that nobody limits. */
  async all(): Promise<Told[]> {
    const told: Told[] = [];
    this.say("FREE", "the end");
    for (;;) {
      const one = await this.next();
      if (one.payload?.text === "the end") return [...told, ...this.inbox.rest];
      told.push(one);
    }
  }
}

/** What is used of a router. */
export type Routed = Pick<RouterCore, "websocket">;

/** Connects without a socket. */
export function connectTo(router: Routed, initialData: Record<string, unknown> = {}): Client {
  const socket: AdapterWebSocket = {
    send: (text) => client.hear(String(text)),
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
  socket.on("message", (data) => client.hear(String(data)));
  await once(socket, "open");
  return client;
}

/** The code and the reason that a connection was closed with. */
export async function closed({ socket }: { readonly socket: WebSocket }): Promise<[code: number, reason: string]> {
  const [code, reason] = await once(socket, "close");
  return [code, String(reason)];
}

/** Hands the frames of a connection to a router, as whoever writes an adapter for Node would. */
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
      // ws-kit has names where `ws` has numbers.
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

/** Bun, with the routers of `apps/ws-kit-bun.js`. */
export interface OnBun {
  url(app: string): string;
  /** What a limiter there decided next. */
  decision(): Promise<Decision>;
  stop(): Promise<void>;
}

/** Starts Bun, and resolves when it listens. */
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
