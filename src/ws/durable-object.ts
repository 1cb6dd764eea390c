/**
 * For WebSockets of a Durable Object that hibernate. What has to be known of a connection when the object wakes up is
 * in the attachment of its socket, beside what the application keeps there; how many are open is asked of the platform.
 */
import { SluiceError } from "../core/errors.ts";
import { checkOptions } from "../core/options.ts";
import { ADMISSION_OPTIONS } from "./admission.ts";
import type { Connection, ConnectionState, HandleFrame } from "./connection.ts";
import { Guard, type Options } from "./guard.ts";
import { type Counting, type OpenCount, OpenCounts } from "./open-counts.ts";
import { checkRules, GUARD_OPTIONS } from "./options.ts";
import { isUpgrade, upgradeRequired } from "./upgrade.ts";

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
  readonly connection: Connection<Data>;
  readonly ip: string | undefined;
  kept: string;
}

const OPEN = 1;
/** A tag of the platform has at most so many characters. */
const LONGEST_TAG = 256;

/** Guards the connections of one object. */
export class DurableObjectGuard<Data, Socket extends DurableSocket = DurableSocket> {
  private readonly ctx: DurableContext<Socket>;
  private readonly guard: Guard<Data>;
  private readonly counts: OpenSockets;
  private readonly connections: WeakMap<DurableSocket, Held<Data>> = new WeakMap();

  constructor(ctx: DurableContext<Socket>, options: Options<Data>) {
    checkOptions("guardDurableObject", options, [...GUARD_OPTIONS, ...ADMISSION_OPTIONS]);
    if (typeof ctx?.acceptWebSocket !== "function") {
      throw new SluiceError("invalid-option", "ctx", "the ctx of a Durable Object", ctx);
    }
    const rules = checkRules(options);
    for (const option of ["connection", "heartbeat"] as const) {
      if (rules[option]?.algorithm !== "sliding-log") continue;
      const expected = "an algorithm with a state of few numbers, which an attachment has room for";
      throw new SluiceError("unsupported", option, expected, "sliding-log");
    }
    this.ctx = ctx;
    this.counts = new OpenSockets(ctx);
    // There are no sockets below, but the platform tells the address and lets no client do that.
    this.guard = new Guard(rules, { identity: "cloudflare", ...options }, this.counts);
  }

  /** Accepts a WebSocket, or refuses it. `data` is what is known of who connects, such as a verified user. */
  async upgrade(request: Request, more: { data?: Data; tags?: readonly string[] } = {}): Promise<Response> {
    if (!isUpgrade(request)) return upgradeRequired();
    const { data, tags = [] } = more;
    const admission = await this.guard.admit({ headers: request.headers }, data);
    if (!admission.allowed) return new Response(admission.answer.body, admission.answer);
    const { ip, release } = admission;
    try {
      const { 0: client, 1: socket } = new (globalThis as unknown as Workers<Socket>).WebSocketPair();
      this.ctx.acceptWebSocket(socket, [...tags, ...this.counts.tagsOf(release)]);
      this.adopt(socket, { id: crypto.randomUUID(), ip, data });
      return new Response(null, { status: 101, webSocket: client } as ResponseInit);
    } finally {
      // From here on the platform counts it.
      release();
    }
  }

  /** A frame has come: call this in `webSocketMessage`. */
  message(socket: Socket, frame: string | ArrayBuffer, handle: HandleFrame<Data>): void {
    const held = this.held(socket);
    held.connection.receive(frame, handle);
    this.keep(socket, held);
  }

  /** The connection is closed: call this in `webSocketClose` and `webSocketError`. */
  close(socket: Socket): void {
    this.connections.get(socket)?.connection.end();
  }

  /** A connection, to see or to set who it is. */
  connection(socket: Socket): Connection<Data> {
    return this.held(socket).connection;
  }

  private held(socket: Socket): Held<Data> {
    return this.connections.get(socket) ?? this.adopt(socket, attachmentOf(socket).sluice as Partial<Kept<Data>>);
  }

  /** Takes up a connection: a new one, or one that was there before the object slept. */
  private adopt(socket: Socket, found: Partial<Kept<Data>> = {}): Held<Data> {
    const { id = crypto.randomUUID(), ip, own, beats = [], strikes = 0, struckAt = 0 } = found;
    let { data } = found;
    const keep = () => this.keep(socket, held, "also the same state");
    const peer = {
      id,
      ip,
      get data() {
        return data;
      },
      set data(now) {
        data = now;
        keep();
      },
      send: (message: string | Uint8Array) => socket.send(message),
      close: (code: number, reason: string) => socket.close(code, reason),
    };
    const connection = this.guard.attach(peer, own && { own, beats, strikes, struckAt });
    const held: Held<Data> = { connection, ip, kept: "" };
    this.connections.set(socket, held);
    keep();
    return held;
  }

  /** Attaches what has changed. A frame that is denied mostly changes nothing. */
  private keep(socket: Socket, held: Held<Data>, anyway?: "also the same state"): void {
    const { connection, ip } = held;
    const { own, beats, strikes, struckAt } = connection.state();
    const kept = `${own}/${beats}/${strikes}`;
    if (connection.closed || (kept === held.kept && !anyway)) return;
    held.kept = kept;
    const { id, data } = connection;
    socket.serializeAttachment({ ...attachmentOf(socket), sluice: { id, ip, data, own, beats, strikes, struckAt } });
  }
}

interface Workers<Socket> {
  readonly WebSocketPair: new () => { 0: Socket; 1: Socket };
}

/** What is attached to a socket. Only an object has room for ours. */
function attachmentOf(socket: DurableSocket): Record<string, unknown> {
  const attachment: unknown = socket.deserializeAttachment();
  if (attachment === null || attachment === undefined) return {};
  if (typeof attachment === "object" && !Array.isArray(attachment)) return attachment as Record<string, unknown>;
  throw new SluiceError(
    "invalid-option",
    "attachment",
    "an object, of which the member sluice is left alone",
    attachment,
  );
}

/** Counts the sockets that the platform holds, by their tags, and those that are about to be. */
class OpenSockets implements Counting {
  private readonly ctx: DurableContext<DurableSocket>;
  private readonly coming = new OpenCounts();
  private readonly tags = new WeakMap<() => void, string[]>();

  constructor(ctx: DurableContext<DurableSocket>) {
    this.ctx = ctx;
  }

  enter(counts: readonly OpenCount[]): ReturnType<Counting["enter"]> {
    for (const full of counts) {
      if (full.key.length > LONGEST_TAG) {
        throw new SluiceError("invalid-key", "userId", `a name that fits a tag of ${LONGEST_TAG} characters`, full.key);
      }
      const open = this.ctx.getWebSockets(full.key).filter(({ readyState }) => readyState === OPEN).length;
      const observed = open + this.coming.count(full.key) + 1;
      if (observed > full.limit) return { full, observed };
    }
    const entered = this.coming.enter(counts);
    if (!entered.full)
      this.tags.set(
        entered.release,
        counts.map(({ key }) => key),
      );
    return entered;
  }

  /** The tags of a socket that was let in. */
  tagsOf(release: () => void): string[] {
    return this.tags.get(release) ?? [];
  }
}

/** Guards the hibernating WebSockets of a Durable Object. Make it in the constructor of the object. */
export function guardDurableObject<Data = unknown, Socket extends DurableSocket = DurableSocket>(
  ctx: DurableContext<Socket>,
  options: Options<Data> = {},
): DurableObjectGuard<Data, Socket> {
  return new DurableObjectGuard(ctx, options);
}
