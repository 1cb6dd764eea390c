/**
 * The guard for Socket.IO 4. An event is a frame, and its name is the type. Socket.IO limits the size of frames itself, with
 * `maxHttpBufferSize`, and does not report when a handler has settled: there is no `maxBytes` and no `maxPending`.
 */
import { optionError } from "../../base/errors.ts";
import { checkOptions } from "../../base/options.ts";
import { ADMISSION_OPTIONS, AdmissionControl, type AdmissionOptions } from "../engine/admission.ts";
import type { Connection } from "../engine/connection.ts";
import { checkFunction, parseGuardOptions } from "../engine/guard-config.ts";
import { INVALID } from "../engine/ingress.ts";
import { FRAME_OPTIONS, type FrameOptions } from "../engine/options.ts";
import { SocketIoClient, type SocketIoEvent, type SocketIoSocket } from "./client.ts";
import { type EngineSocket, guardHandshake, type SocketIoRequest } from "./handshake.ts";
import { moveLastMiddlewareToFront, namespacesOf } from "./internals.ts";

/** The part of a Socket.IO `Namespace` that the guard uses. */
interface Namespace {
  // biome-ignore-start lint/suspicious/noExplicitAny: a socket has types of the application.
  use(middleware: (socket: any, next: (error?: Error) => void) => void): unknown;
  on(event: "connect", listener: (socket: any) => void): unknown;
  // biome-ignore-end lint/suspicious/noExplicitAny: as above.
}

/** The part of a Socket.IO `Server` that the guard uses. */
export interface SocketIoServer {
  // biome-ignore-start lint/suspicious/noExplicitAny: these have types of the application.
  /** The transport server below. */
  readonly engine: any;
  /** Listens for new namespaces. */
  on(event: "new_namespace", listener: (namespace: any) => void): unknown;
  // biome-ignore-end lint/suspicious/noExplicitAny: as above.
}

/** Options of `guardSocketIo`. */
export interface SocketIoOptions<Data, Request extends SocketIoRequest>
  extends Omit<FrameOptions<Data, SocketIoEvent, unknown>, Unsupported | "types" | "maxQueued">,
    AdmissionOptions {
  /**
   * Returns the data of a connection, such as a verified user. Its members are copied to `socket.data`. If it throws, the
   * connection is rejected. Default: no data.
   */
  data?: (request: Request) => Data | undefined | Promise<Data | undefined>;
  /** The known events. Default: those that the socket has listeners for; events with only `onAny` have the type `*`. */
  types?: readonly string[] | "any";
  /** Maximum number of events of one connection that wait for a decision or for earlier events. Default: 100. */
  maxQueued?: number;
}

/** Options that Socket.IO has itself, or that it does not allow to implement. */
type Unsupported = "maxBytes" | "maxQueuedBytes" | "typeOf" | "maxPending" | "closeCodes";
const UNSUPPORTED: readonly string[] = ["maxBytes", "maxQueuedBytes", "typeOf", "maxPending", "closeCodes"];

/** The type of events that only `onAny` handles. By name, a client would get a bucket for every event that it invents. */
const OTHER = "*";

/** Guards the connections of one server. */
export interface SocketIoGuard<Data> {
  /** Returns the guarded connection of a socket, which all namespaces of the client share. */
  connection(socket: SocketIoSocket): Connection<Data, SocketIoEvent, unknown>;
}

/**
 * Guards a Socket.IO server with all its namespaces. Call it before the server accepts connections. A client whose event is
 * rejected gets the event `limit_exceeded` with a notice. A closed client may reconnect; a banned one is disconnected by the
 * server, after which Socket.IO clients do not reconnect. Keys are made of `socket.data`.
 */
export function guardSocketIo<Data = unknown, Request extends SocketIoRequest = SocketIoRequest>(
  server: SocketIoServer,
  options: SocketIoOptions<Data, Request> = {},
): SocketIoGuard<Data> {
  const known = ["data", ...FRAME_OPTIONS.filter((option) => !UNSUPPORTED.includes(option)), ...ADMISSION_OPTIONS];
  checkOptions("guardSocketIo", options, known);
  checkFunction("data", options.data);
  if (typeof server?.engine?.use !== "function") {
    throw optionError("invalid-option", "server", "a Socket.IO Server that is attached to an HTTP server", server);
  }
  const socketOf = new WeakMap<SocketIoEvent, SocketIoSocket>();
  const typeOf = (event: SocketIoEvent): string => {
    const [name] = event;
    const socket = socketOf.get(event) as SocketIoSocket;
    if (options.types !== undefined || socket.listenerCount(name) > 0) return String(name);
    return socket.listenersAny().length > 0 ? OTHER : INVALID;
  };
  const config = parseGuardOptions<Data, SocketIoEvent, unknown>(
    { types: "any", maxQueued: 100, ...options, typeOf },
    () => 0,
    (notice) => notice,
  );
  const admittedOf = guardHandshake(server.engine, new AdmissionControl(options, config), options.data);
  const clients = new WeakMap<EngineSocket, SocketIoClient<Data>>();

  function clientOf(conn: EngineSocket): SocketIoClient<Data> {
    let client = clients.get(conn);
    if (client) return client;
    const { ip, data } = admittedOf(conn) ?? {};
    client = new SocketIoClient(conn, { config, socketOf, ip, data });
    clients.set(conn, client);
    return client;
  }

  function guardNamespace(namespace: Namespace): void {
    namespace.use((socket: SocketIoSocket, next) => {
      const client = clientOf(socket.conn);
      // A join that was read in the same chunk as the packet that closed the connection.
      if (client.connection.closed) return next(new Error("closed"));
      client.activate(socket);
      next();
    });
    // The application's middleware relies on `socket.data`.
    moveLastMiddlewareToFront(namespace);
    // Not in middleware: Socket.IO skips it for recovered connections.
    namespace.on("connect", (socket: SocketIoSocket) => {
      const client = clientOf(socket.conn);
      client.activate(socket);
      client.add(socket);
      socket.use((event: SocketIoEvent, next) => {
        socketOf.set(event, socket);
        client.activeSocket = socket;
        client.connection.receive(event, () => next());
      });
    });
  }

  server.engine.on("connection", clientOf);
  server.on("new_namespace", guardNamespace);
  for (const namespace of namespacesOf(server)) guardNamespace(namespace as Namespace);

  return {
    connection(socket) {
      const client = clientOf(socket.conn);
      client.activeSocket = socket;
      return client.connection;
    },
  };
}
