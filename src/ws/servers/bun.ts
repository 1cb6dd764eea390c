/** The guard for `Bun.serve`. Rejects connections instead of upgrading them, and wraps the WebSocket handlers. */
import { SluiceError } from "../../base/errors.ts";
import { internalError } from "../../http/rejection.ts";
import type { Connection } from "../engine/connection.ts";
import { buildGuard, type DataOf, type Guard, type GuardOptions } from "../engine/create-guard.ts";
import { SocketPeer, serverMaxPayload } from "../engine/sockets.ts";
import { isUpgrade, toResponse, upgradeRequired } from "../engine/upgrade.ts";

/** A frame as Bun passes it on: text or binary. */
export type BunFrame = string | Uint8Array;

/** The part of Bun's `ServerWebSocket` that the guard uses. */
export interface BunSocket<Data> {
  /** The data of the application. */
  data: Data;
  /** The state of the connection, as in browsers. */
  readonly readyState: number;
  /** The IP address of the other end. */
  readonly remoteAddress: string;
  /** Sends a message. */
  send(message: string | Uint8Array): unknown;
  /** Closes the connection. */
  close(code?: number, reason?: string): void;
}

/** The part of Bun's `Server` that the guard uses. */
export interface BunServer {
  /** Upgrades a request to a WebSocket. */
  // biome-ignore lint/suspicious/noExplicitAny: the type of its data belongs to the application.
  upgrade(request: Request, options?: any): boolean;
  /** Returns the IP address of the other end. */
  requestIP(request: Request): { address: string } | null;
}

/** The part of Bun's WebSocket handlers that the guard wraps. */
export interface BunHandlers {
  // biome-ignore-start lint/suspicious/noExplicitAny: sockets and buffers have Bun's own types.
  /** Called when a connection opens. */
  open?: ((socket: any) => unknown) | undefined;
  /** Called for each frame. */
  message?: ((socket: any, frame: any) => unknown) | undefined;
  /** Called when a connection has closed. */
  close?: ((socket: any, code: number, reason: string) => unknown) | undefined;
  /** Called for each ping. */
  ping?: ((socket: any, data: any) => unknown) | undefined;
  /** Called for each pong. */
  pong?: ((socket: any, data: any) => unknown) | undefined;
  // biome-ignore-end lint/suspicious/noExplicitAny: as above.
  /** The largest frame in bytes. */
  maxPayloadLength?: number | undefined;
}

/** Options of one upgrade. */
export interface BunUpgradeOptions<Data extends object> {
  /**
   * The data of the socket, with the verified user as `userId` and `tenantId`. A function is called only if the IP address
   * may connect. Default: an empty object.
   */
  data?: DataOf<Data>;
  /** Headers of the upgrade response. Default: none. */
  headers?: Headers | Record<string, string>;
}

/** The result of admission, kept until the socket opens. */
interface Admitted {
  readonly ip: string | undefined;
  release(): void;
}

/** The guarded connection of a socket. */
interface Attached<Data extends object> {
  readonly connection: Connection<Data, BunFrame>;
  release(): void;
}

/** Guards the connections of `Bun.serve`. */
export class BunGuard<Data extends object> {
  private readonly guard: Guard<Data, BunFrame>;
  /** Admitted connections whose sockets have not opened, by the data of the socket. Several may share one object. */
  private readonly admitted: WeakMap<object, Admitted[]> = new WeakMap();
  private readonly attached: WeakMap<object, Attached<Data>> = new WeakMap();

  constructor(options: GuardOptions<Data, BunFrame>) {
    this.guard = buildGuard("guardBun", options);
  }

  /** Upgrades a request and returns `undefined`, or returns the response that rejects it. */
  async upgrade(
    request: Request,
    server: BunServer,
    options: BunUpgradeOptions<Data> = {},
  ): Promise<Response | undefined> {
    if (!isUpgrade(request)) return upgradeRequired();
    const { headers } = options;
    const requestLike = { peer: server.requestIP(request)?.address, headers: request.headers };
    const admission = await this.guard.admit(requestLike, options.data);
    if (!admission.allowed) return toResponse(admission.response);
    const data = admission.data ?? ({} as Data);
    if (typeof data !== "object") {
      admission.release();
      this.guard.config.reportError(invalidData(data), "SLUICE_REQUEST_FAILED");
      return toResponse(internalError(request.headers.get("accept") ?? undefined));
    }
    const others = this.admitted.get(data) ?? [];
    this.admitted.set(data, [...others, admission]);
    let isUpgraded = false;
    try {
      isUpgraded = server.upgrade(request, headers ? { data, headers } : { data });
    } finally {
      if (!isUpgraded) {
        admission.release();
        this.admitted.set(data, others);
      }
    }
    return isUpgraded ? undefined : upgradeRequired();
  }

  /** Wraps WebSocket handlers. `message` is called only with frames that pass. */
  websocket<H extends BunHandlers>(handlers: H): H {
    const maxPayloadLength = handlers.maxPayloadLength ?? serverMaxPayload(this.guard.config.maxBytes);
    return {
      ...handlers,
      maxPayloadLength,
      open: (socket: BunSocket<Data>) => {
        this.attach(socket);
        return handlers.open?.(socket);
      },
      message: (socket: BunSocket<Data>, frame: BunFrame) => {
        this.connection(socket).receive(frame, (frame) => handlers.message?.(socket, frame));
      },
      ping: (socket: BunSocket<Data>, data: Uint8Array) => {
        if (this.connection(socket).ping()) return handlers.ping?.(socket, data);
      },
      pong: (socket: BunSocket<Data>, data: Uint8Array) => {
        if (this.connection(socket).ping()) return handlers.pong?.(socket, data);
      },
      close: (socket: BunSocket<Data>, code: number, reason: string) => {
        const { connection, release } = this.attach(socket);
        connection.end();
        release();
        return handlers.close?.(socket, code, reason);
      },
    };
  }

  /** Returns the guarded connection of a socket. */
  connection(socket: BunSocket<Data>): Connection<Data, BunFrame> {
    return this.attach(socket).connection;
  }

  private attach(socket: BunSocket<Data>): Attached<Data> {
    let attached = this.attached.get(socket);
    if (attached) return attached;
    const { data } = socket;
    const admitted = typeof data === "object" && data !== null ? this.admitted.get(data)?.shift() : undefined;
    // A socket that was upgraded without the guard has only the address of its peer.
    const ip = admitted ? admitted.ip : this.guard.addressOfPeer(socket.remoteAddress);
    const connection = this.guard.attach(new BunPeer(socket, ip));
    attached = { connection, release: admitted?.release ?? (() => {}) };
    this.attached.set(socket, attached);
    return attached;
  }
}

/** A peer whose data is `socket.data`, which the application may replace. */
class BunPeer<Data> extends SocketPeer<Data> {
  declare protected readonly socket: BunSocket<Data>;

  override get data(): Data | undefined {
    return this.socket.data;
  }

  override set data(data: Data | undefined) {
    this.socket.data = data as Data;
  }
}

/** The value itself is not in the message: it may be a user id or a token. */
function invalidData(received: unknown): SluiceError {
  const expected = "an object, because it becomes socket.data";
  const message = `data must be ${expected}, but received a ${typeof received}.`;
  return new SluiceError("invalid-option", message, { option: "data", expected, received });
}

/** Guards `Bun.serve`: `upgrade` decides who may connect, and `websocket` checks the frames of each connection. */
export function guardBun<Data extends object = object>(options: GuardOptions<Data, BunFrame> = {}): BunGuard<Data> {
  return new BunGuard(options);
}
