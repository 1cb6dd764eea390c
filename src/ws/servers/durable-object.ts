/**
 * For WebSockets of a Durable Object that hibernate. What has to be known of a connection when the object wakes up is
 * in the attachment of its socket, beside what the application keeps there; how many are open is asked of the platform.
 */
import { optionError } from "../../core/errors.ts";
import type { Connection, ConnectionState, HandleFrame } from "../engine/connection.ts";
import { type DataOf, type Guard, type GuardOptions, guardOf } from "../engine/create-guard.ts";
import { type Counting, type Entry, type OpenCount, OpenCounts } from "../engine/open-counts.ts";
import { CLOSED, type PlainSocket, SocketPeer } from "../engine/sockets.ts";
import { isUpgrade, refused, upgradeRequired } from "../engine/upgrade.ts";

/** A frame of a Durable Object: a text, or bytes. */
export type DurableFrame = string | ArrayBuffer;

/** What is used of a socket. */
export interface DurableSocket {
  readonly readyState: number;
  send(message: string | ArrayBuffer | ArrayBufferView): void;
  close(code?: number, reason?: string): void;
  // biome-ignore lint/suspicious/noExplicitAny: what an application attaches is its own.
  serializeAttachment(attachment: any): void;
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  deserializeAttachment(): any;
}

/** What is used of an object's `ctx`. */
export interface DurableContext<Socket> {
  acceptWebSocket(socket: Socket, tags?: string[]): void;
  getWebSockets(tag?: string): Socket[];
}

/** What is kept of a connection, as the member `sluice` of its attachment. */
interface Kept<Data> extends ConnectionState {
  readonly id: string;
  readonly ip: string | undefined;
  readonly data: Data | undefined;
}

/** A connection in memory, and the state that is attached to its socket. */
interface Held<Data> {
  readonly connection: Connection<Data, DurableFrame>;
  readonly ip: string | undefined;
  kept: string;
}

/** A tag of the platform has at most so many characters. */
const MAX_TAG_CHARS = 256;

/** Guards the connections of one object. */
export class DurableObjectGuard<Data, Socket extends DurableSocket = DurableSocket> {
  private readonly ctx: DurableContext<Socket>;
  private readonly guard: Guard<Data, DurableFrame>;
  private readonly open: OpenSockets;
  private readonly connections: WeakMap<DurableSocket, Held<Data>> = new WeakMap();

  constructor(ctx: DurableContext<Socket>, options: GuardOptions<Data, DurableFrame>) {
    if (typeof ctx?.acceptWebSocket !== "function") {
      throw optionError("invalid-option", "ctx", "the ctx of a Durable Object", ctx);
    }
    this.ctx = ctx;
    // There are no sockets below, but the platform tells the address and lets no client do that.
    const { identity = "cloudflare" } = options;
    this.open = new OpenSockets(ctx);
    this.guard = guardOf("guardDurableObject", { ...options, identity }, [], this.open);
    for (const option of ["connection", "heartbeat"] as const) {
      if (this.guard.rules[option]?.algorithm !== "sliding-log") continue;
      const expected = "an algorithm with a state of few numbers, which an attachment has room for";
      throw optionError("unsupported", option, expected, "sliding-log");
    }
  }

  /**
   * Accepts a WebSocket, or refuses it. `data` is what is known of who connects, such as a verified user, or a function
   * that is asked when the address may connect: it is attached to the socket, which has room for 16 KiB.
   */
  async upgrade(request: Request, more: { data?: DataOf<Data>; tags?: readonly string[] } = {}): Promise<Response> {
    if (!isUpgrade(request)) return upgradeRequired();
    const { tags = [] } = more;
    const admission = await this.guard.admit({ headers: request.headers }, more.data);
    if (!admission.allowed) return refused(admission.answer);
    const { ip, data, counted, release } = admission;
    const { 0: client, 1: socket } = new (globalThis as unknown as Workers<Socket>).WebSocketPair();
    try {
      const { connection } = this.adopt(socket, { id: crypto.randomUUID(), ip, data });
      // Before it is accepted: one that was, and of which nothing can be kept, would keep the object awake.
      attach(socket, keptOf(connection, ip));
      this.ctx.acceptWebSocket(socket, [...tags, ...counted]);
    } finally {
      // From here on the platform counts it.
      release();
    }
    return new Response(null, { status: 101, webSocket: client } as ResponseInit);
  }

  /** A frame has come: call this in `webSocketMessage`. */
  message(socket: Socket, frame: DurableFrame, handle: HandleFrame<Data, DurableFrame>): void {
    const held = this.held(socket);
    held.connection.receive(frame, handle);
    this.keep(socket, held);
  }

  /** The connection is closed: call this in `webSocketClose` and `webSocketError`. */
  close(socket: Socket): void {
    this.connections.get(socket)?.connection.end();
    this.open.leave(socket);
  }

  /** A connection, to see or to set who it is. */
  connection(socket: Socket): Connection<Data, DurableFrame> {
    return this.held(socket).connection;
  }

  private held(socket: Socket): Held<Data> {
    const found = this.connections.get(socket);
    if (found) return found;
    const attached = attachmentOf(socket);
    return this.adopt(socket, attached?.sluice as Partial<Kept<Data>> | undefined);
  }

  /** Takes up a connection: a new one, or one that was there before the object slept. */
  private adopt(socket: Socket, found: Partial<Kept<Data>> = {}): Held<Data> {
    const { id = crypto.randomUUID(), ip, own, beats = [], strikes = 0, struckAt = 0 } = found;
    // First where it lasts: what can't be attached is not taken.
    const keep = (data: Data | undefined) => attach(socket, { ...keptOf(connection, ip), data });
    const peer = new DurablePeer(socket, ip, found.data, id, keep);
    const connection = this.guard.attach(peer, own && { own, beats, strikes, struckAt });
    const held: Held<Data> = { connection, ip, kept: "" };
    this.connections.set(socket, held);
    return held;
  }

  /** Attaches what has changed. A frame that is denied mostly changes nothing. */
  private keep(socket: Socket, held: Held<Data>): void {
    const { connection, ip } = held;
    if (connection.closed) return;
    const { own, beats, strikes, struckAt } = connection.state();
    const kept = `${own}/${beats}/${strikes}/${struckAt}`;
    // An application may have attached something else in its place.
    if (kept === held.kept && attachmentOf(socket)?.sluice !== undefined) return;
    held.kept = kept;
    try {
      attach(socket, keptOf(connection, ip));
    } catch (error) {
      this.guard.rules.reportError(error);
    }
  }
}

function keptOf<Data>(connection: Connection<Data, DurableFrame>, ip: string | undefined): Kept<Data> {
  return { id: connection.id, ip, data: connection.data, ...connection.state() };
}

/** Puts what is kept beside what the application has attached. */
function attach<Data>(socket: DurableSocket, kept: Kept<Data>): void {
  const attached = attachmentOf(socket);
  if (!attached) {
    throw optionError("invalid-option", "attachment", "an object, of which the member sluice is left alone");
  }
  try {
    socket.serializeAttachment({ ...attached, sluice: kept });
  } catch (error) {
    const expected = `what can be attached to a socket beside the rest (${(error as Error).message})`;
    throw optionError("invalid-option", "data", expected, kept.data);
  }
}

/** Its data is attached to the socket when it is set. */
class DurablePeer<Data> extends SocketPeer<Data> {
  private readonly keep: (data: Data | undefined) => void;

  constructor(
    socket: PlainSocket,
    ip: string | undefined,
    data: Data | undefined,
    id: string,
    keep: (data: Data | undefined) => void,
  ) {
    super(socket, ip, data, id);
    this.keep = keep;
  }

  override get data(): Data | undefined {
    return super.data;
  }

  override set data(data: Data | undefined) {
    this.keep(data);
    super.data = data;
  }
}

interface Workers<Socket> {
  readonly WebSocketPair: new () => { 0: Socket; 1: Socket };
}

/** What is attached to a socket, if that is an object: nothing else has room for ours. */
function attachmentOf(socket: DurableSocket): Record<string, unknown> | undefined {
  const attachment: unknown = socket.deserializeAttachment() ?? {};
  const hasRoom = typeof attachment === "object" && !Array.isArray(attachment);
  return hasRoom ? (attachment as Record<string, unknown>) : undefined;
}

/** Counts the sockets that the platform holds, by their tags, and those that are about to be. */
class OpenSockets implements Counting {
  private readonly ctx: DurableContext<DurableSocket>;
  private readonly coming = new OpenCounts();
  private readonly gone: WeakSet<DurableSocket> = new WeakSet();

  constructor(ctx: DurableContext<DurableSocket>) {
    this.ctx = ctx;
  }

  enter({ key, limit }: OpenCount): Entry {
    if (key.length > MAX_TAG_CHARS) {
      throw optionError("invalid-key", "userId", `a name that fits a tag of ${MAX_TAG_CHARS} characters`, key);
    }
    // One that the guard has closed is there until its client answers, which may be never.
    const isThere = (socket: DurableSocket) => socket.readyState !== CLOSED && !this.gone.has(socket);
    const open = this.ctx.getWebSockets(key).filter(isThere).length;
    const entry = this.coming.enter({ key, limit: limit - open });
    return entry.release ? entry : { observed: entry.observed + open };
  }

  /** Nobody is at its other end any more. */
  leave(socket: DurableSocket): void {
    this.gone.add(socket);
  }
}

/** Guards the hibernating WebSockets of a Durable Object. Make it in the constructor of the object. */
export function guardDurableObject<Data = unknown, Socket extends DurableSocket = DurableSocket>(
  ctx: DurableContext<Socket>,
  options: GuardOptions<Data, DurableFrame> = {},
): DurableObjectGuard<Data, Socket> {
  return new DurableObjectGuard(ctx, options);
}
