/** For `Bun.serve`. Connections are refused in place of the upgrade; handlers are wrapped. */
import { optionError } from "../../core/errors.ts";
import { internalError } from "../../http/rejection.ts";
import type { Connection } from "../engine/connection.ts";
import { type DataOf, type Guard, type GuardOptions, guardOf } from "../engine/create-guard.ts";
import { mostReadOf, SocketPeer } from "../engine/sockets.ts";
import { isUpgrade, refused, upgradeRequired } from "../engine/upgrade.ts";

/** A frame of Bun: a text, or bytes. */
export type BunFrame = string | Uint8Array;

/** What is used of a socket. */
export interface BunSocket<Data> {
  data: Data;
  readonly readyState: number;
  readonly remoteAddress: string;
  send(message: string | Uint8Array): unknown;
  close(code?: number, reason?: string): void;
}

/** What is used of a server. */
export interface BunServer {
  // biome-ignore lint/suspicious/noExplicitAny: the type of its data belongs to the application.
  upgrade(request: Request, options?: any): boolean;
  requestIP(request: Request): { address: string } | null;
}

/** What is used of the handlers. */
export interface BunHandlers {
  // biome-ignore-start lint/suspicious/noExplicitAny: sockets and buffers have types of Bun's own.
  open?: ((socket: any) => unknown) | undefined;
  message?: ((socket: any, frame: any) => unknown) | undefined;
  close?: ((socket: any, code: number, reason: string) => unknown) | undefined;
  ping?: ((socket: any, data: any) => unknown) | undefined;
  pong?: ((socket: any, data: any) => unknown) | undefined;
  // biome-ignore-end lint/suspicious/noExplicitAny: as above.
  maxPayloadLength?: number | undefined;
}

/** What was found out about a connection before it came about. */
interface Admitted {
  readonly ip: string | undefined;
  release(): void;
}

/** Guards the connections of `Bun.serve`. */
export class BunGuard<Data extends object> {
  private readonly guard: Guard<Data, BunFrame>;
  /** Those that are about to be, by the data that their sockets will carry. Several may carry the same. */
  private readonly coming: WeakMap<object, Admitted[]> = new WeakMap();
  private readonly held: WeakMap<object, { connection: Connection<Data, BunFrame>; release(): void }> = new WeakMap();

  constructor(options: GuardOptions<Data, BunFrame>) {
    this.guard = guardOf("guardBun", options);
  }

  /**
   * Upgrades a request, or returns what to answer instead. `data` becomes that of the socket, in which `userId` and
   * `tenantId` are the verified user; a function is asked when the address may connect.
   */
  async upgrade(
    request: Request,
    server: BunServer,
    more: { data?: DataOf<Data>; headers?: Headers | Record<string, string> } = {},
  ): Promise<Response | undefined> {
    if (!isUpgrade(request)) return upgradeRequired();
    const { headers } = more;
    const facts = { peer: server.requestIP(request)?.address, headers: request.headers };
    const admission = await this.guard.admit(facts, more.data);
    if (!admission.allowed) return refused(admission.answer);
    const data = admission.data ?? ({} as Data);
    if (typeof data !== "object") {
      admission.release();
      const expected = "an object, which becomes that of the socket";
      this.guard.rules.reportError(optionError("invalid-option", "data", expected, data), "SLUICE_REQUEST_FAILED");
      return refused(internalError(request.headers.get("accept") ?? undefined));
    }
    const coming = this.coming.get(data) ?? [];
    this.coming.set(data, [...coming, admission]);
    let isUpgraded = false;
    try {
      isUpgraded = server.upgrade(request, headers ? { data, headers } : { data });
    } finally {
      if (!isUpgraded) {
        admission.release();
        this.coming.set(data, coming);
      }
    }
    return isUpgraded ? undefined : upgradeRequired();
  }

  /** Wraps the handlers of sockets: `message` gets what may pass. */
  websocket<H extends BunHandlers>(handlers: H): H {
    const maxPayloadLength = handlers.maxPayloadLength ?? mostReadOf(this.guard.rules.maxBytes);
    return {
      ...handlers,
      maxPayloadLength,
      open: (socket: BunSocket<Data>) => {
        this.take(socket);
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
        const { connection, release } = this.take(socket);
        connection.end();
        release();
        return handlers.close?.(socket, code, reason);
      },
    };
  }

  /** The connection of a socket: who it is, and whether it is closed. */
  connection(socket: BunSocket<Data>): Connection<Data, BunFrame> {
    return this.take(socket).connection;
  }

  private take(socket: BunSocket<Data>): { connection: Connection<Data, BunFrame>; release(): void } {
    let held = this.held.get(socket);
    if (held) return held;
    const { data } = socket;
    const admitted = typeof data === "object" && data !== null ? this.coming.get(data)?.shift() : undefined;
    // Whoever was upgraded by somebody else is known by the socket.
    const ip = admitted ? admitted.ip : this.guard.addressOfPeer(socket.remoteAddress);
    const connection = this.guard.attach(new BunPeer(socket, ip));
    held = { connection, release: admitted?.release ?? (() => {}) };
    this.held.set(socket, held);
    return held;
  }
}

/** Its data is that of the socket, which the application may replace. */
class BunPeer<Data> extends SocketPeer<Data> {
  declare protected readonly socket: BunSocket<Data>;

  override get data(): Data | undefined {
    return this.socket.data;
  }

  override set data(data: Data | undefined) {
    this.socket.data = data as Data;
  }
}

/** Guards `Bun.serve`: `upgrade` decides who may connect, and `websocket` what they may send. */
export function guardBun<Data extends object = object>(options: GuardOptions<Data, BunFrame> = {}): BunGuard<Data> {
  return new BunGuard(options);
}
