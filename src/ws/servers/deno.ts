/** For `Deno.serve`. Connections are refused in place of the upgrade. */
import { optionError } from "../../core/errors.ts";
import { tell } from "../engine/callbacks.ts";
import type { Connection } from "../engine/connection.ts";
import { type DataOf, type Guard, type GuardOptions, guardOf } from "../engine/create-guard.ts";
import type { Ingress } from "../engine/ingress.ts";
import { CONNECTING, type PlainSocket, SocketPeer } from "../engine/sockets.ts";
import { isUpgrade, refused, upgradeRequired } from "../engine/upgrade.ts";

/** A frame of Deno: a text, or bytes. */
export type DenoFrame = string | ArrayBuffer;

/** What is used of Deno. */
interface DenoRuntime {
  upgradeWebSocket(request: Request, options?: object): { socket: WebSocket; response: Response };
}

/** What is done with a connection. */
export interface DenoHandlers<Data> {
  open?(socket: WebSocket): unknown;
  /** Gets what may pass. */
  message(socket: WebSocket, frame: DenoFrame, ingress: Ingress<Data>): unknown;
  close?(socket: WebSocket, code: number, reason: string): unknown;
}

/**
 * Of a client that left in the middle of the upgrade nothing is heard, not even its end: after so long it is given up.
 * `request.signal` would tell, but whoever looks at it makes Deno print a warning.
 */
const UPGRADE_MS = 5000;

/** Guards the connections of `Deno.serve`. */
export class DenoGuard<Data> {
  private readonly guard: Guard<Data, DenoFrame>;
  private readonly connections: WeakMap<WebSocket, Connection<Data, DenoFrame>> = new WeakMap();

  constructor(options: GuardOptions<Data, DenoFrame>) {
    this.guard = guardOf("guardDeno", options);
  }

  /**
   * Upgrades a request, or refuses it. `data` is what is known of who connects, such as a verified user, or a function
   * that is asked when the address may connect; the rest of `more` goes to `Deno.upgradeWebSocket`.
   */
  async upgrade(
    request: Request,
    info: { readonly remoteAddr: object },
    handlers: DenoHandlers<Data>,
    more: { data?: DataOf<Data>; protocol?: string; idleTimeout?: number } = {},
  ): Promise<Response> {
    const { data: known, ...upgrading } = more;
    const { Deno } = globalThis as { Deno?: DenoRuntime };
    if (!Deno) throw optionError("unsupported", "guardDeno", "Deno");
    if (!isUpgrade(request)) return upgradeRequired();
    // After the upgrade the address can't be asked for any more.
    const { hostname } = info.remoteAddr as { hostname?: string };
    const admission = await this.guard.admit({ peer: hostname, headers: request.headers }, known);
    if (!admission.allowed) return refused(admission.answer);
    const { ip, data, release } = admission;
    try {
      const { socket, response } = Deno.upgradeWebSocket(request, upgrading);
      this.listen(socket, ip, data, handlers, release);
      return response;
    } catch (error) {
      release();
      this.guard.rules.reportError(error, "SLUICE_REQUEST_FAILED");
      return upgradeRequired();
    }
  }

  /** The connection of a socket: who it is, and whether it is closed. */
  connection(socket: WebSocket): Connection<Data, DenoFrame> {
    const connection = this.connections.get(socket);
    if (connection) return connection;
    throw optionError("invalid-option", "socket", "a socket of this guard", socket);
  }

  private listen(
    socket: WebSocket,
    ip: string | undefined,
    data: Data | undefined,
    handlers: DenoHandlers<Data>,
    release: () => void,
  ): void {
    socket.binaryType = "arraybuffer";
    const connection = this.guard.attach(new SocketPeer(socket as PlainSocket, ip, data));
    this.connections.set(socket, connection);
    const timer = setTimeout(() => {
      if (socket.readyState !== CONNECTING) return;
      release();
      socket.close();
    }, UPGRADE_MS);
    socket.addEventListener("open", () => {
      clearTimeout(timer);
      handlers.open?.(socket);
    });
    socket.addEventListener("message", ({ data }) => {
      connection.receive(data as DenoFrame, (frame, ingress) => handlers.message(socket, frame, ingress));
    });
    socket.addEventListener("error", (event) => {
      tell(this.guard.rules.onError, undefined, (event as ErrorEvent).error ?? event);
    });
    socket.addEventListener("close", ({ code, reason }) => {
      clearTimeout(timer);
      connection.end();
      release();
      handlers.close?.(socket, code, reason);
    });
  }
}

/** Guards `Deno.serve`: `upgrade` decides who may connect, and hands over what they may send. */
export function guardDeno<Data = unknown>(options: GuardOptions<Data, DenoFrame> = {}): DenoGuard<Data> {
  return new DenoGuard(options);
}
