/** For `Bun.serve`. Connections are refused in place of the upgrade; handlers are wrapped. */
import { checkOptions } from "../core/options.ts";
import { ADMISSION_OPTIONS } from "./admission.ts";
import type { Connection } from "./connection.ts";
import { Guard, type Options } from "./guard.ts";
import type { Ingress } from "./ingress.ts";
import { checkRules, GUARD_OPTIONS } from "./options.ts";
import { isUpgrade, upgradeRequired } from "./upgrade.ts";

/** What is used of a socket. */
export interface BunSocket<Data> {
  data: Data;
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
export interface BunHandlers<Socket> {
  open?: ((socket: Socket) => unknown) | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: Bun hands over its own kind of buffer.
  message?: ((socket: Socket, frame: any, ingress: Ingress<any>) => unknown) | undefined;
  close?: ((socket: Socket, code: number, reason: string) => unknown) | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  ping?: ((socket: Socket, data: any) => unknown) | undefined;
}

/** Guards the connections of `Bun.serve`. */
export class BunGuard<Data extends object> {
  private readonly guard: Guard<Data>;
  private readonly isPeer: boolean;
  /** What was found out about a connection before it came about, by the data that it carries. */
  private readonly admitted: WeakMap<object, { ip: string | undefined; release(): void }> = new WeakMap();
  private readonly connections: WeakMap<object, Connection<Data>> = new WeakMap();

  constructor(options: Options<Data>) {
    checkOptions("guardBun", options, [...GUARD_OPTIONS, ...ADMISSION_OPTIONS]);
    this.guard = new Guard(checkRules(options), options);
    this.isPeer = (options.identity ?? "peer") === "peer";
  }

  /**
   * Upgrades a request, or returns what to answer instead. `data` becomes that of the socket, in which `userId` and
   * `tenantId` are the verified user.
   */
  async upgrade(
    request: Request,
    server: BunServer,
    more: { data?: Data; headers?: HeadersInit } = {},
  ): Promise<Response | undefined> {
    if (!isUpgrade(request)) return upgradeRequired();
    const { data = {} as Data, headers } = more;
    const facts = { peer: server.requestIP(request)?.address, headers: request.headers };
    const admission = await this.guard.admit(facts, data);
    if (!admission.allowed) return new Response(admission.answer.body, admission.answer);
    this.admitted.set(data, admission);
    if (server.upgrade(request, headers ? { data, headers } : { data })) return undefined;
    admission.release();
    return upgradeRequired();
  }

  /** Wraps the handlers of sockets: `message` gets what may pass. */
  websocket<Socket extends BunSocket<Data>, H extends BunHandlers<Socket>>(handlers: H & BunHandlers<Socket>): H {
    return {
      ...handlers,
      open: (socket: Socket) => {
        this.connectionOf(socket);
        return handlers.open?.(socket);
      },
      message: (socket: Socket, frame: string | Uint8Array) => {
        this.connectionOf(socket).receive(frame, (frame, ingress) => handlers.message?.(socket, frame, ingress));
      },
      ping: (socket: Socket, data: Uint8Array) => {
        if (this.connectionOf(socket).ping()) return handlers.ping?.(socket, data);
      },
      close: (socket: Socket, code: number, reason: string) => {
        this.connectionOf(socket).end();
        this.admitted.get(socket.data)?.release();
        return handlers.close?.(socket, code, reason);
      },
    };
  }

  private connectionOf(socket: BunSocket<Data>): Connection<Data> {
    let connection = this.connections.get(socket);
    if (connection) return connection;
    connection = this.guard.attach({
      id: crypto.randomUUID(),
      ip: this.addressOf(socket),
      get data() {
        return socket.data;
      },
      set data(data) {
        socket.data = data as Data;
      },
      send: (message) => void socket.send(message),
      close: (code, reason) => socket.close(code, reason),
    });
    this.connections.set(socket, connection);
    return connection;
  }

  /** Whoever was upgraded by somebody else is known by the socket, unless that would be a proxy. */
  private addressOf(socket: BunSocket<Data>): string | undefined {
    const { data } = socket;
    const admitted = typeof data === "object" && data !== null ? this.admitted.get(data) : undefined;
    if (admitted || !this.isPeer) return admitted?.ip;
    return this.guard.addressOf({ peer: socket.remoteAddress, headers: {} });
  }
}

/** Guards `Bun.serve`: `upgrade` decides who may connect, and `websocket` what they may send. */
export function guardBun<Data extends object = object>(options: Options<Data> = {}): BunGuard<Data> {
  return new BunGuard(options);
}
