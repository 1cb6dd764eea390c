/** Starts the servers that the guard is tested on, each in its own runtime, and connects clients to them. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { io } from "socket.io-client";
import { expect, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { install, runtimesFolder } from "../../runtime-tests/install.js";
import { startWorkerd } from "../../test/cloudflare/workerd.ts";

const here = dirname(fileURLToPath(import.meta.url));

/** The options of a server: see apps/room.js. */
export interface Scenario {
  onExceeded?: "send" | "close" | "custom" | "ban";
  store?: "memory" | "late" | "redis";
  capacity?: number;
  rate?: string;
  throwing?: boolean;
  more?: object;
  upgrades?: { capacity: number; rate: string; late?: boolean };
}

/** The record of a server. */
export interface Journal {
  handled: number[];
  exceeded: {
    id: string;
    type: string;
    observed: number;
    limit: number;
    retryAfterMs?: number;
    action: string;
    key: string;
  }[];
  invalid: number;
  errors: string[];
  open: number;
  /** For a Durable Object: the id of the instance, and the attachments of its sockets. */
  born?: string;
  attached?: { seen: number; sluice: Record<string, unknown> }[];
}

/** A client of any of the servers. */
export interface Client {
  /** Sends a valid message with this number. */
  sendMessage(n: number, more?: object): void;
  /** Sends an invalid frame. */
  sendInvalid(): void;
  /** Notices that the client has received. */
  readonly notices: Notice[];
  /** The close code; on Socket.IO, the reason. */
  readonly closed: Promise<number | string>;
  /** Sends any frame. Not on Socket.IO. */
  send(frame: string | Uint8Array): void;
  ping(): void;
  close(): void;
}

/** A notice, as clients receive it. */
export interface Notice {
  code: string;
  retryable: boolean;
  retryAfterMs?: number;
}

/** A running server. */
export interface Server {
  journal(): Promise<Journal>;
  /** Connects a client. Rejects with the status if the server rejects it. */
  connect(user?: string): Promise<Client>;
  /** Makes the late store reply for keys that contain "slow". */
  release(): Promise<unknown>;
  /** Connects a client that can send, but never replies to a close. */
  connectSilent(): Promise<{ sendMessage(n: number): void; disconnect(): void }>;
  /** Sends an upgrade request and disconnects before the response, by closing or by resetting the socket. */
  abortUpgrade(how?: "close" | "reset"): Promise<void>;
}

const installed = (path: string) => join(runtimesFolder, "node_modules", path);
const commands = {
  ws: () => [process.execPath, join(here, "apps/ws.js")],
  bun: () => [installed("@oven/bun-linux-x64/bin/bun"), join(here, "apps/bun.js")],
  deno: () => [
    installed("@deno/linux-x64-glibc/deno"),
    "run",
    "-A",
    "--node-modules-dir=manual",
    join(here, "apps/deno.js"),
  ],
  "socket.io": () => [process.execPath, join(here, "apps/socket-io.js")],
};

/** All kinds of servers. */
export const kinds = ["ws", "bun", "deno", "workerd", "socket.io"] as const;
export type Kind = (typeof kinds)[number];

/** Starts a server that is stopped at the end of the test. */
export async function start(kind: Kind, scenario: Scenario, redisUrl?: string): Promise<Server> {
  const url = kind === "workerd" ? await startWorker(scenario) : await startProcess(kind, scenario, redisUrl);
  return {
    release: () => fetch(`${url}/release`),
    connectSilent: () => connectSilent(url),
    abortUpgrade: (how = "close") =>
      abortUpgrade(url, kind === "socket.io" ? "/socket.io/?EIO=4&transport=websocket" : "/", how),
    journal: async () => (await fetch(`${url}/journal`)).json() as Promise<Journal>,
    connect: (user) => (kind === "socket.io" ? connectSocketIo(url, user) : connectWebSocket(url, user)),
  };
}

async function startWorker(scenario: Scenario): Promise<string> {
  const workerd = await startWorkerd(pathToFileURL(join(here, "apps/worker.js")), {
    durableObjects: { ROOM: { className: "Room", useSQLite: true } },
    bindings: { scenario },
  });
  onTestFinished(() => workerd.stop());
  return workerd.url.replace(/\/$/, "");
}

async function startProcess(kind: Exclude<Kind, "workerd">, scenario: Scenario, redisUrl?: string): Promise<string> {
  if (kind === "bun" || kind === "deno") install(runtimesFolder);
  const [command = "", ...args] = commands[kind]();
  const env = { ...process.env, DENO_NO_UPDATE_CHECK: "1", SLUICE_SCENARIO: JSON.stringify({ scenario, redisUrl }) };
  const child = spawn(command, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(async () => {
    const gone = child.exitCode === null && child.signalCode === null ? once(child, "exit") : undefined;
    child.kill("SIGKILL");
    await gone;
  });
  let written = "";
  const port = await new Promise<string>((resolve, reject) => {
    const read = (chunk: Buffer) => {
      written += chunk;
      const [, port] = /listening on (\d+)/.exec(written) ?? [];
      if (port) resolve(port);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.once("exit", () => reject(new Error(`${kind} ended: ${written.slice(-2000)}`)));
  });
  return `http://127.0.0.1:${port}`;
}

/** Sends an upgrade request, and nothing else. */
async function requestUpgrade(url: string, path = "/"): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  await once(socket, "connect");
  const request =
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
  await new Promise<void>((resolve) => socket.write(request, () => resolve()));
  return socket;
}

async function abortUpgrade(url: string, path: string, how: "close" | "reset"): Promise<void> {
  const socket = await requestUpgrade(url, path);
  const closed = once(socket, "close");
  if (how === "reset") socket.resetAndDestroy();
  else socket.destroy();
  await closed;
}

async function connectSilent(url: string): ReturnType<Server["connectSilent"]> {
  const socket = await requestUpgrade(url);
  onTestFinished(() => void socket.destroy());
  await once(socket, "data");
  return {
    sendMessage(n) {
      const text = Buffer.from(JSON.stringify({ type: "say", n }));
      // A mask of zeros does not change the payload.
      socket.write(Buffer.concat([Buffer.from([0x81, 0x80 | text.length, 0, 0, 0, 0]), text]));
    },
    disconnect: () => void socket.destroy(),
  };
}

async function connectWebSocket(url: string, user?: string): Promise<Client> {
  const socket = new WebSocket(`${url.replace("http", "ws")}/${user ? `?user=${user}` : ""}`);
  const notices: Notice[] = [];
  const closed = new Promise<number>((resolve) => socket.once("close", resolve));
  socket.on("message", (data) => notices.push(JSON.parse(String(data)).payload));
  await new Promise<void>((resolve, reject) => {
    socket.once("open", () => resolve());
    socket.once("unexpected-response", (_, { statusCode, headers }) => {
      reject(Object.assign(new Error(`${statusCode}`), { headers }));
    });
    socket.on("error", reject);
  });
  onTestFinished(() => socket.terminate());
  return {
    sendMessage: (n, more = {}) => socket.send(JSON.stringify({ type: "say", n, ...more })),
    sendInvalid: () => socket.send("not JSON"),
    notices,
    closed,
    send: (frame) => socket.send(frame),
    ping: () => socket.ping(),
    close: () => socket.close(),
  };
}

async function connectSocketIo(url: string, user?: string): Promise<Client> {
  const query = user ? { user } : {};
  const socket = io(url, { transports: ["websocket"], forceNew: true, reconnection: false, query });
  onTestFinished(() => void socket.disconnect());
  const notices: Notice[] = [];
  const closed = new Promise<string>((resolve) => socket.once("disconnect", resolve));
  socket.on("limit_exceeded", (notice: Notice) => notices.push(notice));
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    // The status is only in the message of the WebSocket's error.
    socket.once("connect_error", (error) => {
      const { description } = error as Error & { description?: { message?: string } };
      reject(new Error(/\d{3}/.exec(description?.message ?? "")?.[0] ?? String(error)));
    });
  });
  return {
    sendMessage: (n, more = {}) => socket.emit("say", { type: "say", n, ...more }),
    sendInvalid: () => socket.emit("junk"),
    notices,
    closed,
    send: () => expect.unreachable("Socket.IO has only events"),
    // Only the server pings. A hostile client can send unsolicited pongs.
    ping: () => (socket.io.engine as unknown as { _sendPacket(type: string): void })._sendPacket("pong"),
    close: () => socket.disconnect(),
  };
}
