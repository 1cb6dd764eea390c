/**
 * For Socket.IO. An event is a frame and its name is the type. Socket.IO reads frames itself, so that their size is
 * limited by its `maxHttpBufferSize`; it does not tell when a handler is done, so that there is no limit on that.
 */
import { optionError } from "../../core/errors.ts";
import { checkOptions } from "../../core/options.ts";
import { ADMISSION_OPTIONS, type AdmissionOptions, Admissions } from "../engine/admission.ts";
import { Connection } from "../engine/connection.ts";
import { INVALID } from "../engine/ingress.ts";
import { checkFunction, checkRulesOf, FRAME_OPTIONS, type FrameOptions } from "../engine/options.ts";
import type { Notice } from "../engine/replies.ts";
import { afterCloseTimeout } from "../engine/sockets.ts";
import { type EngineSocket, guardDoor, type SocketIoRequest } from "./handshake.ts";

/** An event: its name and its arguments. */
export type SocketIoEvent = readonly [name: string, ...args: unknown[]];

/** What is used of a socket. */
export interface SocketIoSocket {
  // biome-ignore-start lint/suspicious/noExplicitAny: these have types of the application, and differ between versions.
  readonly conn: any;
  data: any;
  readonly connected: boolean;
  use(middleware: (event: any, next: (error?: Error) => void) => void): unknown;
  emit(name: any, ...args: any[]): unknown;
  disconnect(close?: boolean): unknown;
  on(event: "disconnect", listener: () => void): unknown;
  listenerCount(name: any): number;
  listenersAny(): unknown[];
  // biome-ignore-end lint/suspicious/noExplicitAny: as above.
}

/** What is used of a namespace. */
interface Namespace {
  // biome-ignore-start lint/suspicious/noExplicitAny: a socket has types of the application.
  use(middleware: (socket: any, next: (error?: Error) => void) => void): unknown;
  on(event: "connect", listener: (socket: any) => void): unknown;
  // biome-ignore-end lint/suspicious/noExplicitAny: as above.
  readonly _fns?: unknown[];
}

/** What is used of a server. */
export interface SocketIoServer {
  // biome-ignore-start lint/suspicious/noExplicitAny: as above.
  readonly engine: any;
  readonly _nsps: Map<string, any>;
  on(event: "new_namespace", listener: (namespace: any) => void): unknown;
  // biome-ignore-end lint/suspicious/noExplicitAny: as above.
}

/** How Socket.IO is guarded. */
export interface SocketIoOptions<Data, Request extends SocketIoRequest>
  extends Omit<FrameOptions<Data, SocketIoEvent, unknown>, Refused>,
    AdmissionOptions {
  /**
   * What is known of who connects, such as a verified user; its members become those of `socket.data`. A connection that
   * it throws at is not let in. Default: nothing.
   */
  data?: (request: Request) => Data | undefined | Promise<Data | undefined>;
  /** The events that there are. Default: those that the socket listens to; what only `onAny` hears has the type `*`. */
  types?: readonly string[] | "any";
  /** The most events of one connection that wait for a decision or for their turn. Default: 100. */
  maxQueued?: number;
}

/** What Socket.IO sees to itself, or keeps to itself. */
type Refused = "maxBytes" | "maxQueued" | "maxQueuedBytes" | "typeOf" | "types" | "maxPending" | "closeCodes";
const REFUSED: readonly string[] = ["maxBytes", "maxQueuedBytes", "typeOf", "maxPending", "closeCodes"];

/** The event that tells clients what was exceeded. */
const LIMIT_EXCEEDED = "limit_exceeded";
/** The first letter of a packet that joins a namespace. */
const JOIN = "0";
/** What all events are that only `onAny` hears: each by its name would have a bucket for whatever a client invents. */
const OTHER = "*";
/** Guards the connections of one server. */
export interface SocketIoGuard<Data> {
  /** The connection of a socket, which is the same in all namespaces. */
  connection(socket: SocketIoSocket): Connection<Data, SocketIoEvent, unknown>;
}

/**
 * Guards a server of Socket.IO, all its namespaces. Call it before clients come. A client whose event does not pass gets
 * the event `limit_exceeded` with a notice; one that is closed may connect again, and one that is banned is told not to.
 * Keys are made of `socket.data`.
 */
export function guardSocketIo<Data = unknown, Request extends SocketIoRequest = SocketIoRequest>(
  server: SocketIoServer,
  options: SocketIoOptions<Data, Request> = {},
): SocketIoGuard<Data> {
  const known = ["data", ...FRAME_OPTIONS.filter((option) => !REFUSED.includes(option)), ...ADMISSION_OPTIONS];
  checkOptions("guardSocketIo", options, known);
  checkFunction("data", options.data);
  if (typeof server?.engine?.use !== "function") {
    throw optionError("invalid-option", "server", "a Server of Socket.IO that is attached to an HTTP server", server);
  }
  const owners = new WeakMap<SocketIoEvent, SocketIoSocket>();
  const typeOf = (event: SocketIoEvent): string => {
    const [name] = event;
    const socket = owners.get(event) as SocketIoSocket;
    if (options.types !== undefined || socket.listenerCount(name) > 0) return String(name);
    return socket.listenersAny().length > 0 ? OTHER : INVALID;
  };
  const rules = checkRulesOf<Data, SocketIoEvent, unknown>(
    { types: "any", maxQueued: 100, ...options, typeOf },
    () => 0,
    (notice: Notice): unknown => notice,
  );
  const admittedOf = guardDoor(server.engine, new Admissions(options, rules), options.data);
  const held = new WeakMap<object, Held<Data>>();
  /** What the application had told of a client when a socket heard of it. */
  const introduced = new WeakMap<SocketIoSocket, object>();

  server.engine.on("connection", take);
  server.on("new_namespace", watch);
  for (const namespace of server._nsps.values()) watch(namespace);

  function watch(namespace: Namespace): void {
    namespace.use((socket: SocketIoSocket, next) => {
      // What was read together with the packet that closed it.
      if (take(socket.conn).connection.closed) return next(new Error("closed"));
      introduce(socket);
      next();
    });
    // Before the others, which may be there already: those of a namespace that was told by a pattern.
    namespace._fns?.unshift(namespace._fns.pop());
    // A connection that is recovered does not go through middleware.
    namespace.on("connect", (socket: SocketIoSocket) => {
      const one = take(socket.conn);
      introduce(socket);
      one.sockets.add(socket);
      socket.on("disconnect", () => one.sockets.delete(socket));
      socket.use((event: SocketIoEvent, next) => {
        owners.set(event, socket);
        one.speaker = socket;
        one.connection.receive(event, () => next());
      });
    });
  }

  /** Puts what is known of a client where the application looks for it; what it has put there itself stays. */
  function introduce(socket: SocketIoSocket): void {
    const one = take(socket.conn);
    one.speaker = socket;
    const heard = introduced.get(socket);
    if (!heard) socket.data = { ...one.found, ...one.told, ...socket.data };
    // What was told meanwhile is newer than what its middleware has put there.
    else if (heard !== one.told) Object.assign(socket.data, one.told);
    introduced.set(socket, one.told);
  }

  /** One for all namespaces of a client, so that nobody has a bucket for each. */
  function take(conn: EngineSocket): Held<Data> {
    const found = held.get(conn);
    if (found) return found;
    const { ip, data } = admittedOf(conn) ?? {};
    const sockets = new Set<SocketIoSocket>();
    const connected = () => [...sockets].find(({ connected }) => connected);
    const isUnasked = unaskedAnswers(sockets);
    const one: Held<Data> = {
      sockets,
      speaker: undefined,
      found: data,
      told: {},
      connection: new Connection(rules, {
        id: crypto.randomUUID(),
        ip,
        get data() {
          return one.speaker ? one.speaker.data : { ...one.found, ...one.told };
        },
        set data(data) {
          one.told = { ...one.told, ...data };
          const { speaker } = one;
          for (const socket of speaker ? new Set([speaker, ...sockets]) : sockets) introduce(socket);
          one.speaker = speaker;
        },
        get isOpen() {
          return conn.readyState === "open";
        },
        send: (message, event) => ((event && owners.get(event)) ?? connected())?.emit(LIMIT_EXCEEDED, message),
        close(code) {
          const banned = code === rules.closeCodes.ban && connected();
          // Events that have passed are handed over in the next tick, if the socket is still connected by then.
          setTimeout(() => (banned ? banned.disconnect(true) : conn.close()));
          const { socket } = conn.transport ?? {};
          if (socket)
            socket.once(
              "close",
              afterCloseTimeout(() => socket.terminate?.()),
            );
        },
      }),
    };
    held.set(conn, one);
    const { connection } = one;
    conn.on("packet", ({ type, data }) => {
      if (type !== "message") connection.ping();
      else if (typeof data !== "string") return;
      // Joining a namespace runs code of the application, and a client that is not closed tries again and again.
      else if (data.startsWith(JOIN)) connection.control(true);
      else if (isUnasked(data)) connection.control();
    });
    conn.once("close", () => connection.end());
    return one;
  }

  return {
    connection(socket) {
      const one = take(socket.conn);
      one.speaker = socket;
      return one.connection;
    },
  };
}

/** A connection, the sockets of its namespaces, and the one that it is about. */
interface Held<Data> {
  readonly connection: Connection<Data, SocketIoEvent, unknown>;
  readonly sockets: Set<SocketIoSocket>;
  speaker: SocketIoSocket | undefined;
  /** What was found out before it came about, and what the application has told since. */
  readonly found: Data | undefined;
  told: Partial<Data>;
}

/** Tells packets that acknowledge something nobody has asked these sockets, or that somebody has and knows by now. */
function unaskedAnswers(sockets: Iterable<SocketIoSocket>): (packet: string) => boolean {
  /** Questions whose answers Socket.IO has not taken note of yet. */
  const taken = new Set<string>();
  return (packet) => {
    if (!packet.startsWith("3") && !packet.startsWith("6")) return false;
    const [, namespace = "/", digits] = /^.(?:\d+-)?(?:(\/[^,]*),)?(\d+)/.exec(packet) ?? [];
    const id = Number(digits);
    const question = `${namespace} ${id}`;
    const socket = [...(sockets as Iterable<Asking>)].find(({ nsp }) => nsp.name === namespace);
    if (!socket?.acks?.has(id) || taken.has(question)) return true;
    if (taken.size === 0) setTimeout(() => taken.clear());
    taken.add(question);
    return false;
  };
}

/** What Socket.IO keeps to itself of a socket: what it has asked its client. */
interface Asking extends SocketIoSocket {
  readonly nsp: { readonly name: string };
  readonly acks?: ReadonlyMap<number, unknown>;
}
