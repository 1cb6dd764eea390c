/**
 * For Socket.IO. An event is a frame and its name is the type. Socket.IO reads frames itself, so that their size is
 * limited by its `maxHttpBufferSize`; it does not tell when a handler is done, so that there is no limit on that.
 */
import { SluiceError } from "../core/errors.ts";
import { checkOptions } from "../core/options.ts";
import { ADMISSION_OPTIONS, type Admission, type AdmissionOptions, Admissions } from "./admission.ts";
import type { Notice } from "./answers.ts";
import { Connection } from "./connection.ts";
import { quietly } from "./guard.ts";
import { INVALID } from "./ingress.ts";
import { checkFunction, checkRulesOf, GUARD_OPTIONS, type GuardOptions } from "./options.ts";

/** An event: its name and its arguments. */
export type SocketIoEvent = readonly [name: string, ...args: unknown[]];

/** What is used of a request. */
export interface SocketIoRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly socket: { readonly remoteAddress?: string | undefined; once(event: "close", listener: () => void): unknown };
}

/** What is used of the connection below a socket, which all its namespaces share. */
interface EngineSocket {
  readonly request: object;
  on(event: "packet", listener: (packet: { type: string }) => void): unknown;
  once(event: "close", listener: () => void): unknown;
  close(): unknown;
}

/** What is used of a socket. */
export interface SocketIoSocket {
  // biome-ignore lint/suspicious/noExplicitAny: its own type names all that it has, which differs between versions.
  readonly conn: any;
  data: unknown;
  // biome-ignore lint/suspicious/noExplicitAny: events have types of the application.
  use(middleware: (event: any, next: (error?: Error) => void) => void): unknown;
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  emit(name: any, ...args: any[]): unknown;
  disconnect(close?: boolean): unknown;
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  listenerCount(name: any): number;
  listenersAny(): unknown[];
}

/** What is used of a namespace. */
interface Namespace {
  // biome-ignore lint/suspicious/noExplicitAny: a socket has types of the application.
  use(middleware: (socket: any, next: (error?: Error) => void) => void): unknown;
}

/** What is used of a server. */
export interface SocketIoServer {
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  readonly engine: any;
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  readonly _nsps: Map<string, any>;
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  on(event: "new_namespace", listener: (namespace: any) => void): unknown;
}

/** How Socket.IO is guarded. */
export interface SocketIoOptions<Data, Request extends SocketIoRequest>
  extends Omit<GuardOptions<Data, SocketIoEvent, unknown>, Refused>,
    AdmissionOptions {
  /** What is known of who connects, such as a verified user. A connection that it throws at is not let in. Default: nothing. */
  data?: (request: Request) => Data | undefined | Promise<Data | undefined>;
  /** The events that there are. Default: those that the socket has a listener for. */
  types?: readonly string[] | "any";
}

/** What Socket.IO sees to itself, or keeps to itself. */
type Refused = "maxBytes" | "maxQueuedBytes" | "typeOf" | "types" | "maxPending" | "closeCodes";
const REFUSED: readonly string[] = ["maxBytes", "maxQueuedBytes", "typeOf", "maxPending", "closeCodes"];

/** The event that tells clients what was exceeded. */
const LIMIT_EXCEEDED = "limit_exceeded";

/**
 * Guards a server of Socket.IO, all its namespaces. Call it before clients come. A client whose event does not pass gets
 * the event `limit_exceeded` with a notice; one that is closed may connect again, and one that is banned is told not to.
 */
export function guardSocketIo<Data = unknown, Request extends SocketIoRequest = SocketIoRequest>(
  server: SocketIoServer,
  options: SocketIoOptions<Data, Request> = {},
): void {
  const known = ["data", ...GUARD_OPTIONS.filter((option) => !REFUSED.includes(option)), ...ADMISSION_OPTIONS];
  checkOptions("guardSocketIo", options, known);
  checkFunction("data", options.data);
  if (typeof server?.engine?.use !== "function") {
    throw new SluiceError(
      "invalid-option",
      "server",
      "a Server of Socket.IO that is attached to an HTTP server",
      server,
    );
  }
  const owners = new WeakMap<SocketIoEvent, SocketIoSocket>();
  const typeOf = (event: SocketIoEvent): string => {
    const socket = owners.get(event) as SocketIoSocket;
    const isKnown =
      options.types !== undefined || socket.listenerCount(event[0]) > 0 || socket.listenersAny().length > 0;
    return isKnown ? String(event[0]) : INVALID;
  };
  const sizeOf = () => 0;
  const encode = (notice: Notice): unknown => notice;
  const rules = checkRulesOf<Data, SocketIoEvent, unknown>({ types: "any", ...options, typeOf }, sizeOf, encode);
  const failed = quietly(options.onError);
  const admissions = new Admissions(options, { exceeded: quietly(options.onLimitExceeded, failed), failed });
  const admitted = new WeakMap<object, Admitted<Data>>();
  const connections = new WeakMap<object, Connection<Data, SocketIoEvent, unknown>>();

  server.engine.use((request: Request & EngineRequest, response: Response, next: () => void) => {
    // Later requests of a connection that was let in.
    if (request._query?.sid !== undefined) return next();
    admit(request, response).then(
      (admission) => {
        if (admission.allowed) return next();
        answer(request, response, admission.answer);
      },
      (error: unknown) => {
        failed(error);
        answer(request, response, { status: 500, headers: {}, body: "" });
      },
    );
  });
  server.engine.on("connection", (conn: EngineSocket) => admitted.get(conn.request)?.arrive(conn));
  server.on("new_namespace", watch);
  for (const namespace of server._nsps.values()) watch(namespace);

  async function admit(request: Request, response: Response): Promise<Admission> {
    // A socket that is closed has no address any more.
    const peer = request.socket.remoteAddress;
    const data = await options.data?.(request);
    const admission = await admissions.admit({ peer, headers: request.headers }, data);
    if (!admission.allowed) return admission;
    const { ip, release } = admission;
    let hasArrived = false;
    const arrive = (conn: EngineSocket) => {
      hasArrived = true;
      conn.once("close", release);
    };
    // When the first request is over and there is no connection, there will be none.
    const end = () => hasArrived || release();
    (isPolling(response) ? response : request.socket).once("close", end);
    admitted.set(request, { ip, data, arrive });
    return admission;
  }

  function watch(namespace: Namespace): void {
    namespace.use((socket: SocketIoSocket, next) => {
      const connection = connectionOf(socket);
      socket.use((event: SocketIoEvent, next) => {
        owners.set(event, socket);
        connection.receive(event, () => next());
      });
      next();
    });
  }

  /** One for all namespaces of a client, so that nobody has a bucket for each. */
  function connectionOf(socket: SocketIoSocket): Connection<Data, SocketIoEvent, unknown> {
    const conn: EngineSocket = socket.conn;
    const found = connections.get(conn);
    if (found) return found;
    const { ip, data } = admitted.get(conn.request) ?? {};
    const connection = new Connection(rules, {
      id: crypto.randomUUID(),
      ip,
      data,
      send: (message, event) => event && owners.get(event)?.emit(LIMIT_EXCEEDED, message),
      // Events that have passed are handed over in the next tick, if the socket is still connected by then.
      close: (code) => setTimeout(() => (code === rules.closeCodes.ban ? socket.disconnect(true) : conn.close())),
    });
    connections.set(conn, connection);
    conn.on("packet", ({ type }) => (type === "ping" || type === "pong") && connection.ping());
    conn.once("close", () => connection.end());
    return connection;
  }
}

/** What was found out about a connection before it came about. */
interface Admitted<Data> {
  readonly ip: string | undefined;
  readonly data: Data | undefined;
  arrive(conn: EngineSocket): void;
}

/** What Socket.IO knows of a request, and answers to it. That of an upgrade can't be written to. */
interface EngineRequest {
  readonly _query?: { readonly sid?: string };
}
type Response = PollingResponse | { readonly writeHead: () => void };
interface PollingResponse {
  writeHead(status: number, headers: Record<string, string>): { end(body: string): void };
  once(event: "close", listener: () => void): unknown;
}

interface RawSocket {
  once(event: "finish", listener: () => void): unknown;
  end(text: string): unknown;
  destroy(): unknown;
}
const REASONS: Readonly<Record<number, string>> = {
  429: "Too Many Requests",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

function isPolling(response: Response): response is PollingResponse {
  return "once" in response;
}

function answer(
  request: SocketIoRequest,
  response: Response,
  { status, headers, body }: { status: number; headers: Readonly<Record<string, string>>; body: string },
): void {
  if (isPolling(response)) {
    response.writeHead(status, headers).end(body);
    return;
  }
  const lines = Object.entries({ ...headers, Connection: "close" }).map(([name, value]) => `${name}: ${value}\r\n`);
  const socket = request.socket as unknown as RawSocket;
  socket.once("finish", () => socket.destroy());
  socket.end(`HTTP/1.1 ${status} ${REASONS[status] ?? "Refused"}\r\n${lines.join("")}\r\n${body}`);
}
