/** One client of a Socket.IO server: its engine.io connection, and its sockets in all namespaces. */
import { Connection } from "../engine/connection.ts";
import type { GuardConfig } from "../engine/guard-config.ts";
import type { Peer } from "../engine/peer.ts";
import { afterCloseTimeout } from "../engine/sockets.ts";
import type { EngineSocket } from "./handshake.ts";
import { awaitsAck } from "./internals.ts";
import { isAckPacket, isConnectPacket, parseAckPacket } from "./packets.ts";

/** An event: its name and its arguments. */
export type SocketIoEvent = readonly [name: string, ...args: unknown[]];

/** The part of a Socket.IO `Socket` that the guard uses. */
export interface SocketIoSocket {
  // biome-ignore-start lint/suspicious/noExplicitAny: these have types of the application, and differ between versions.
  /** The connection below the socket. */
  readonly conn: any;
  /** The data of the application. */
  data: any;
  /** Whether the socket is connected. */
  readonly connected: boolean;
  /** Adds a middleware for events. */
  use(middleware: (event: any, next: (error?: Error) => void) => void): unknown;
  /** Sends an event. */
  emit(name: any, ...args: any[]): unknown;
  /** Ends the connection. */
  disconnect(close?: boolean): unknown;
  /** Listens for the end of the connection. */
  on(event: "disconnect", listener: () => void): unknown;
  /** Returns how many listeners an event has. */
  listenerCount(name: any): number;
  /** Returns the listeners for all events. */
  listenersAny(): unknown[];
  // biome-ignore-end lint/suspicious/noExplicitAny: as above.
}

/** The event with which clients receive notices. */
const LIMIT_EXCEEDED = "limit_exceeded";

/** The settings and the admission result of a client. */
interface ClientOptions<Data> {
  readonly config: GuardConfig<Data, SocketIoEvent, unknown>;
  /** The socket that received each event. */
  readonly socketOf: WeakMap<SocketIoEvent, SocketIoSocket>;
  readonly ip: string | undefined;
  /** The data that was found before the connection was established. */
  readonly data: Data | undefined;
}

/** The peer of one client. All namespaces share one guarded connection: otherwise each would have its own buckets. */
export class SocketIoClient<Data> implements Peer<Data, SocketIoEvent, unknown> {
  readonly id: string = crypto.randomUUID();
  readonly ip: string | undefined;
  readonly connection: Connection<Data, SocketIoEvent, unknown>;
  /** The socket whose `data` is used: that of the last event, or of the last call of `connection()`. */
  activeSocket: SocketIoSocket | undefined;
  private readonly conn: EngineSocket;
  private readonly sockets: Set<SocketIoSocket> = new Set();
  private readonly socketOf: WeakMap<SocketIoEvent, SocketIoSocket>;
  private readonly banCode: number;
  private readonly admittedData: Data | undefined;
  /** The data that the application has set on the connection. Replaced, not changed, whenever it is set. */
  private assignedData: Partial<Data> = {};
  /** The `assignedData` that each socket has received. */
  private readonly receivedData: WeakMap<SocketIoSocket, Partial<Data>> = new WeakMap();
  /** Acknowledgements of this tick, which Socket.IO has not removed from the pending ones yet. */
  private readonly recentAcks: Set<string> = new Set();

  constructor(conn: EngineSocket, { config, socketOf, ip, data }: ClientOptions<Data>) {
    this.conn = conn;
    this.socketOf = socketOf;
    this.ip = ip;
    this.admittedData = data;
    this.banCode = config.closeCodes.ban;
    this.connection = new Connection(config, this);
    conn.on("packet", ({ type, data }) => this.checkPacket(type, data));
    conn.once("close", () => this.connection.end());
  }

  /** Makes a socket the active one, and copies the client's data to `socket.data`. */
  activate(socket: SocketIoSocket): void {
    this.activeSocket = socket;
    this.copyData(socket);
  }

  /** Adds the socket of a namespace until it disconnects. */
  add(socket: SocketIoSocket): void {
    this.sockets.add(socket);
    socket.on("disconnect", () => this.sockets.delete(socket));
  }

  get data(): Data | undefined {
    return this.activeSocket ? this.activeSocket.data : ({ ...this.admittedData, ...this.assignedData } as Data);
  }

  set data(data: Data | undefined) {
    this.assignedData = { ...this.assignedData, ...data };
    const { activeSocket, sockets } = this;
    for (const socket of activeSocket ? new Set([activeSocket, ...sockets]) : sockets) this.copyData(socket);
  }

  get isOpen(): boolean {
    return this.conn.readyState === "open";
  }

  send(message: unknown, event?: SocketIoEvent): void {
    const socket = (event && this.socketOf.get(event)) ?? this.connectedSocket();
    socket?.emit(LIMIT_EXCEEDED, message);
  }

  close(code: number): void {
    const banned = code === this.banCode && this.connectedSocket();
    // Socket.IO passes events to handlers in the next tick, and only if the socket is still connected.
    setTimeout(() => (banned ? banned.disconnect(true) : this.conn.close()));
    const { socket } = this.conn.transport ?? {};
    if (!socket) return;
    const cancelTermination = afterCloseTimeout(() => socket.terminate?.());
    socket.once("close", cancelTermination);
  }

  private connectedSocket(): SocketIoSocket | undefined {
    return [...this.sockets].find(({ connected }) => connected);
  }

  /** Copies the client's data to `socket.data`. Members that the application's middleware has set there are kept. */
  private copyData(socket: SocketIoSocket): void {
    const received = this.receivedData.get(socket);
    if (!received) socket.data = { ...this.admittedData, ...this.assignedData, ...socket.data };
    // Data that was assigned after the first copy is newer than what the middleware has set.
    else if (received !== this.assignedData) Object.assign(socket.data, this.assignedData);
    this.receivedData.set(socket, this.assignedData);
  }

  /** Charges packets that are not events: pings, joins, and acknowledgements that Socket.IO does not expect. */
  private checkPacket(type: string, data: unknown): void {
    const { connection } = this;
    if (type !== "message") connection.ping();
    else if (typeof data !== "string") return;
    // Joining runs middleware of the application, and a client that is not closed could join again and again.
    else if (isConnectPacket(data)) connection.control(true);
    else if (isAckPacket(data) && !this.isExpectedAck(data)) connection.control();
  }

  /** False for an acknowledgement with no pending request, or for a request that is already acknowledged. */
  private isExpectedAck(packet: string): boolean {
    const { namespace, id } = parseAckPacket(packet);
    const ack = `${namespace} ${id}`;
    const sockets = [...this.sockets] as (SocketIoSocket & { readonly nsp: { readonly name: string } })[];
    const socket = sockets.find(({ nsp }) => nsp.name === namespace);
    if (!socket || !awaitsAck(socket, id) || this.recentAcks.has(ack)) return false;
    if (this.recentAcks.size === 0) setTimeout(() => this.recentAcks.clear());
    this.recentAcks.add(ack);
    return true;
  }
}
