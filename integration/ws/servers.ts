/** The servers that the guard is tried on, each in its own runtime, and the client that comes to them. */
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

/** How a server is guarded: see apps/room.js. */
export interface Scenario {
  onExceeded?: "send" | "close" | "custom" | "ban";
  store?: "memory" | "late" | "redis";
  capacity?: number;
  rate?: string;
  throwing?: boolean;
  more?: object;
  upgrades?: { capacity: number; rate: string; late?: boolean };
}

/** What a server wrote down. */
export interface Journal {
  handled: number[];
  hooks: {
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
  /** Of an object: which instance it is, and what its sockets carry. */
  born?: string;
  attached?: { seen: number; sluice: Record<string, unknown> }[];
}

/** A client, as all servers have it. */
export interface Client {
  /** Sends a good frame with this number. */
  say(n: number, more?: object): void;
  /** Sends one that can't be read. */
  junk(): void;
  /** What came back. */
  readonly told: Notice[];
  /** The code that it was closed with; on Socket.IO, the reason. */
  readonly closed: Promise<number | string>;
  /** Sends anything, where there is a socket. */
  send(frame: string | Uint8Array): void;
  ping(): void;
  close(): void;
}

/** What a client is told. */
export interface Notice {
  code: string;
  retryable: boolean;
  retryAfterMs?: number;
}

/** A server that runs. */
export interface Server {
  journal(): Promise<Journal>;
  /** A client that is connected; rejects with the status if it is refused. */
  connect(user?: string): Promise<Client>;
  /** Lets the frames of those go on who are called slow. */
  release(): Promise<unknown>;
  /** A client that says something and hears nothing, so that it never answers a close. */
  connectSilent(): Promise<{ say(n: number): void; leave(): void }>;
  /** Asks for the upgrade, and is gone before there can be an answer; or breaks off, which is an error of the socket. */
  leave(how?: "gone" | "reset"): Promise<void>;
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

/** The names of all servers. */
export const kinds = ["ws", "bun", "deno", "workerd", "socket.io"] as const;
export type Kind = (typeof kinds)[number];

/** Starts a server, which ends with the test. */
export async function start(kind: Kind, scenario: Scenario, redisUrl?: string): Promise<Server> {
  const url = kind === "workerd" ? await startWorker(scenario) : await startProcess(kind, scenario, redisUrl);
  return {
    release: () => fetch(`${url}/release`),
    connectSilent: () => connectSilent(url),
    leave: (how = "gone") => leave(url, kind === "socket.io" ? "/socket.io/?EIO=4&transport=websocket" : "/", how),
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

/** Asks for the upgrade, and does nothing else. */
async function ask(url: string, path = "/"): Promise<Socket> {
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

async function leave(url: string, path: string, how: "gone" | "reset"): Promise<void> {
  const socket = await ask(url, path);
  const closed = once(socket, "close");
  if (how === "reset") socket.resetAndDestroy();
  else socket.destroy();
  await closed;
}

async function connectSilent(url: string): ReturnType<Server["connectSilent"]> {
  const socket = await ask(url);
  onTestFinished(() => void socket.destroy());
  await once(socket, "data");
  return {
    say(n) {
      const text = Buffer.from(JSON.stringify({ type: "say", n }));
      // Masked with nothing but zeros, which changes nothing.
      socket.write(Buffer.concat([Buffer.from([0x81, 0x80 | text.length, 0, 0, 0, 0]), text]));
    },
    leave: () => void socket.destroy(),
  };
}

async function connectWebSocket(url: string, user?: string): Promise<Client> {
  const socket = new WebSocket(`${url.replace("http", "ws")}/${user ? `?user=${user}` : ""}`);
  const told: Notice[] = [];
  const closed = new Promise<number>((resolve) => socket.once("close", resolve));
  socket.on("message", (data) => told.push(JSON.parse(String(data)).payload));
  await new Promise<void>((resolve, reject) => {
    socket.once("open", () => resolve());
    socket.once("unexpected-response", (_, { statusCode, headers }) => {
      reject(Object.assign(new Error(`${statusCode}`), { headers }));
    });
    socket.on("error", reject);
  });
  onTestFinished(() => socket.terminate());
  return {
    say: (n, more = {}) => socket.send(JSON.stringify({ type: "say", n, ...more })),
    junk: () => socket.send("not JSON"),
    told,
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
  const told: Notice[] = [];
  const closed = new Promise<string>((resolve) => socket.once("disconnect", resolve));
  socket.on("limit_exceeded", (notice: Notice) => told.push(notice));
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    // What the server answered is hidden in the error of the socket below.
    socket.once("connect_error", (error) => {
      const { description } = error as Error & { description?: { message?: string } };
      reject(new Error(/\d{3}/.exec(description?.message ?? "")?.[0] ?? String(error)));
    });
  });
  return {
    say: (n, more = {}) => socket.emit("say", { type: "say", n, ...more }),
    junk: () => socket.emit("junk"),
    told,
    closed,
    send: () => expect.unreachable("there are only events here"),
    // A client of Socket.IO answers to pings, and a hostile one does that unasked.
    ping: () => (socket.io.engine as unknown as { _sendPacket(type: string): void })._sendPacket("pong"),
    close: () => socket.disconnect(),
  };
}
