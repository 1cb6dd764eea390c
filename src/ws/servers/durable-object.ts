/**
 * The guard for hibernating WebSockets of a Durable Object. The state of a connection is stored in the attachment of its
 * socket, beside the application's own data, and open connections are counted by the tags of the sockets.
 */
import { optionError, SluiceError } from "../../base/errors.ts";
import type { Connection, ConnectionState } from "../engine/connection.ts";
import { buildGuard, type DataOf, type Guard, type GuardOptions } from "../engine/create-guard.ts";
import type { HandleFrame } from "../engine/ingress.ts";
import { type AcquireResult, type ConnectionCounter, OpenCounts } from "../engine/open-counts.ts";
import { CLOSED, type PlainSocket, SocketPeer } from "../engine/sockets.ts";
import { isUpgrade, toResponse, upgradeRequired } from "../engine/upgrade.ts";

/** A frame as a Durable Object receives it: text or binary. */
export type DurableFrame = string | ArrayBuffer;

/** The part of a Workers `WebSocket` that the guard uses. */
export interface DurableSocket {
  /** The state of the connection, as in browsers. */
  readonly readyState: number;
  /** Sends a message. */
  send(message: string | ArrayBuffer | ArrayBufferView): void;
  /** Closes the connection. */
  close(code?: number, reason?: string): void;
  /** Stores a value that survives hibernation. */
  // biome-ignore lint/suspicious/noExplicitAny: the attachment belongs to the application.
  serializeAttachment(attachment: any): void;
  /** Returns the stored value. */
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  deserializeAttachment(): any;
}

/** The part of a Durable Object's `ctx` that the guard uses. */
export interface DurableContext<Socket> {
  /** Accepts a socket that may hibernate. */
  acceptWebSocket(socket: Socket, tags?: string[]): void;
  /** Returns the open sockets. */
  getWebSockets(tag?: string): Socket[];
}

/** Options of one upgrade. */
export interface DurableUpgradeOptions<Data> {
  /**
   * The data of the connection, such as a verified user. A function is called only if the IP address may connect. It is
   * stored in the socket's attachment, which holds at most 16 KiB.
   */
  data?: DataOf<Data>;
  /** Tags of the socket, as for `ctx.acceptWebSocket`. Default: none. */
  tags?: readonly string[];
}

/** The state of a connection, stored as the member `sluice` of the attachment. */
interface AttachedState<Data> extends ConnectionState {
  readonly id: string;
  readonly ip: string | undefined;
  readonly data: Data | undefined;
}

/** A connection in memory, and a fingerprint of the state that is stored in its attachment. */
interface LiveConnection<Data> {
  readonly connection: Connection<Data, DurableFrame>;
  readonly ip: string | undefined;
  savedState: string;
}

/** Maximum length of a tag, set by the platform. */
const MAX_TAG_CHARS = 256;

/** Guards the hibernating WebSockets of one Durable Object. */
export class DurableObjectGuard<Data, Socket extends DurableSocket = DurableSocket> {
  private readonly ctx: DurableContext<Socket>;
  private readonly guard: Guard<Data, DurableFrame>;
  private readonly openSockets: OpenSockets;
  private readonly connections: WeakMap<DurableSocket, LiveConnection<Data>> = new WeakMap();

  constructor(ctx: DurableContext<Socket>, options: GuardOptions<Data, DurableFrame>) {
    if (typeof ctx?.acceptWebSocket !== "function") {
      throw optionError("invalid-option", "ctx", "the ctx of a Durable Object", ctx);
    }
    this.ctx = ctx;
    // An object has no peer address. The platform sets CF-Connecting-IP, and clients can't overwrite it.
    const { identity = "cloudflare" } = options;
    this.openSockets = new OpenSockets(ctx);
    this.guard = buildGuard("guardDurableObject", { ...options, identity }, [], this.openSockets);
    for (const option of ["connection", "heartbeat"] as const) {
      if (this.guard.config[option]?.algorithm.name !== "sliding-log") continue;
      const message = `${option} can't use sliding-log, because its state may not fit into a socket attachment.`;
      const details = { option, expected: "an algorithm other than sliding-log", received: "sliding-log" };
      throw new SluiceError("unsupported", message, details);
    }
  }

  /** Accepts a WebSocket, or rejects it. Returns the response in both cases. */
  async upgrade(request: Request, options: DurableUpgradeOptions<Data> = {}): Promise<Response> {
    if (!isUpgrade(request)) return upgradeRequired();
    const { tags = [] } = options;
    const admission = await this.guard.admit({ headers: request.headers }, options.data);
    if (!admission.allowed) return toResponse(admission.response);
    const { ip, data, counted, release } = admission;
    const { 0: client, 1: socket } = new (globalThis as unknown as Workers<Socket>).WebSocketPair();
    try {
      const { connection } = this.adopt(socket, { id: crypto.randomUUID(), ip, data });
      // Before accepting: an accepted socket whose state can't be stored would keep the object awake.
      writeState(socket, stateOf(connection, ip));
      this.ctx.acceptWebSocket(socket, [...tags, ...counted]);
    } finally {
      // From here on the socket is counted by its tags.
      release();
    }
    return new Response(null, { status: 101, webSocket: client } as ResponseInit);
  }

  /** Checks a received frame, and calls `handle` with it if it passes. Call this in `webSocketMessage`. */
  message(socket: Socket, frame: DurableFrame, handle: HandleFrame<Data, DurableFrame>): void {
    const live = this.liveConnection(socket);
    live.connection.receive(frame, handle);
    this.save(socket, live);
  }

  /** Ends the connection of a socket. Call this in `webSocketClose` and `webSocketError`. */
  close(socket: Socket): void {
    this.connections.get(socket)?.connection.end();
    this.openSockets.markClosed(socket);
  }

  /** Returns the guarded connection of a socket. */
  connection(socket: Socket): Connection<Data, DurableFrame> {
    return this.liveConnection(socket).connection;
  }

  private liveConnection(socket: Socket): LiveConnection<Data> {
    const live = this.connections.get(socket);
    if (live) return live;
    const attachment = attachmentOf(socket);
    return this.adopt(socket, attachment?.sluice as Partial<AttachedState<Data>> | undefined);
  }

  /** Creates the connection of a new socket, or restores it after hibernation. */
  private adopt(socket: Socket, saved: Partial<AttachedState<Data>> = {}): LiveConnection<Data> {
    const { id = crypto.randomUUID(), ip, bucket, heartbeats = [], strikes = 0, lastStrikeAt = 0 } = saved;
    const saveData = (data: Data | undefined) => writeState(socket, { ...stateOf(connection, ip), data });
    const peer = new DurablePeer(socket, { id, ip, data: saved.data }, saveData);
    const connection = this.guard.attach(peer, bucket && { bucket, heartbeats, strikes, lastStrikeAt });
    const live: LiveConnection<Data> = { connection, ip, savedState: "" };
    this.connections.set(socket, live);
    return live;
  }

  /** Stores the state if it has changed. Most denied frames don't change it. */
  private save(socket: Socket, live: LiveConnection<Data>): void {
    const { connection, ip } = live;
    if (connection.closed) return;
    const { bucket, heartbeats, strikes, lastStrikeAt } = connection.state();
    const state = `${bucket}/${heartbeats}/${strikes}/${lastStrikeAt}`;
    // The application may have overwritten the attachment.
    if (state === live.savedState && attachmentOf(socket)?.sluice !== undefined) return;
    live.savedState = state;
    try {
      writeState(socket, stateOf(connection, ip));
    } catch (error) {
      this.guard.config.reportError(error);
    }
  }
}

function stateOf<Data>(connection: Connection<Data, DurableFrame>, ip: string | undefined): AttachedState<Data> {
  return { id: connection.id, ip, data: connection.data, ...connection.state() };
}

/** Stores the state of a connection beside the application's attachment. */
function writeState<Data>(socket: DurableSocket, state: AttachedState<Data>): void {
  const attachment = attachmentOf(socket);
  if (!attachment) {
    const expected = "an object, because sluice stores the connection's state in attachment.sluice";
    throw optionError("invalid-option", "attachment", expected);
  }
  try {
    socket.serializeAttachment({ ...attachment, sluice: state });
  } catch (cause) {
    const expected = "a value that can be cloned and fits into the socket's attachment of 16 KiB";
    const message = `data must be ${expected}, but the platform refused it.`;
    throw new SluiceError("invalid-option", message, { option: "data", expected, received: state.data, cause });
  }
}

/** A peer that stores its data in the attachment when it is set. */
class DurablePeer<Data> extends SocketPeer<Data> {
  private readonly saveData: (data: Data | undefined) => void;

  constructor(
    socket: PlainSocket,
    { id, ip, data }: { id: string; ip: string | undefined; data: Data | undefined },
    saveData: (data: Data | undefined) => void,
  ) {
    super(socket, ip, data, id);
    this.saveData = saveData;
  }

  override get data(): Data | undefined {
    return super.data;
  }

  override set data(data: Data | undefined) {
    // First the attachment: data that can't be stored is not set.
    this.saveData(data);
    super.data = data;
  }
}

interface Workers<Socket> {
  readonly WebSocketPair: new () => { 0: Socket; 1: Socket };
}

/** Returns the attachment of a socket if it is an object, to which the member `sluice` can be added. */
function attachmentOf(socket: DurableSocket): Record<string, unknown> | undefined {
  const attachment: unknown = socket.deserializeAttachment() ?? {};
  const isObject = typeof attachment === "object" && !Array.isArray(attachment);
  return isObject ? (attachment as Record<string, unknown>) : undefined;
}

/** Counts the sockets of the object by their tags, together with upgrades in progress. */
class OpenSockets implements ConnectionCounter {
  private readonly ctx: DurableContext<DurableSocket>;
  private readonly upgrading = new OpenCounts();
  private readonly closed: WeakSet<DurableSocket> = new WeakSet();

  constructor(ctx: DurableContext<DurableSocket>) {
    this.ctx = ctx;
  }

  acquire(key: string, limit: number): AcquireResult {
    if (key.length > MAX_TAG_CHARS) {
      const expected = `short enough for a socket tag of ${MAX_TAG_CHARS} characters`;
      const message = `userId and tenantId must be ${expected}, because maxOpenPerUser counts by tag.`;
      throw new SluiceError("invalid-key", message, { option: "userId", expected, received: key });
    }
    // The platform lists a socket that the guard has closed until its client replies, which may be never.
    const isOpen = (socket: DurableSocket) => socket.readyState !== CLOSED && !this.closed.has(socket);
    const open = this.ctx.getWebSockets(key).filter(isOpen).length;
    const result = this.upgrading.acquire(key, limit - open);
    return result.release ? result : { observed: result.observed + open };
  }

  /** Excludes a socket whose client has disconnected. */
  markClosed(socket: DurableSocket): void {
    this.closed.add(socket);
  }
}

/** Guards the hibernating WebSockets of a Durable Object. Call it in the constructor of the object. */
export function guardDurableObject<Data = unknown, Socket extends DurableSocket = DurableSocket>(
  ctx: DurableContext<Socket>,
  options: GuardOptions<Data, DurableFrame> = {},
): DurableObjectGuard<Data, Socket> {
  return new DurableObjectGuard(ctx, options);
}
