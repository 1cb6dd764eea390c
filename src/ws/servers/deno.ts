/** The guard for `Deno.serve`. Rejects connections instead of upgrading them. */
import { optionError, SluiceError } from "../../base/errors.ts";
import { callListener } from "../engine/callbacks.ts";
import type { Connection } from "../engine/connection.ts";
import { buildGuard, type DataOf, type Guard, type GuardOptions } from "../engine/create-guard.ts";
import type { Ingress } from "../engine/ingress.ts";
import { CONNECTING, type PlainSocket, SocketPeer } from "../engine/sockets.ts";
import { isUpgrade, toResponse, upgradeRequired } from "../engine/upgrade.ts";

/** A frame as Deno passes it on: text or binary. */
export type DenoFrame = string | ArrayBuffer;

/** The part of the `Deno` namespace that the guard uses. */
interface DenoRuntime {
  upgradeWebSocket(request: Request, options?: object): { socket: WebSocket; response: Response };
}

/** Handlers of a connection. */
export interface DenoHandlers<Data> {
  /** Called when the socket has opened. */
  open?(socket: WebSocket): unknown;
  /** Called with each frame that passes. */
  message(socket: WebSocket, frame: DenoFrame, ingress: Ingress<Data>): unknown;
  /** Called when the socket has closed. */
  close?(socket: WebSocket, code: number, reason: string): unknown;
}

/** Options of one upgrade. All but `data` are passed on to `Deno.upgradeWebSocket`. */
export interface DenoUpgradeOptions<Data> {
  /** The data of the connection, such as a verified user. A function is called only if the IP address may connect. */
  data?: DataOf<Data>;
  /** The subprotocol to select. Default: none. */
  protocol?: string;
  /** Seconds after which Deno closes a socket that does not reply to its pings. Default: that of Deno. */
  idleTimeout?: number;
}

/** The result of admission. */
interface Admitted<Data> {
  readonly ip: string | undefined;
  readonly data: Data | undefined;
  release(): void;
}

/**
 * Timeout of an upgrade in ms. Deno emits no event for a client that disconnects during the upgrade, and reading
 * `request.signal` makes Deno print a warning.
 */
const UPGRADE_TIMEOUT_MS = 5000;

/** Guards the connections of `Deno.serve`. */
export class DenoGuard<Data> {
  private readonly guard: Guard<Data, DenoFrame>;
  private readonly connections: WeakMap<WebSocket, Connection<Data, DenoFrame>> = new WeakMap();

  constructor(options: GuardOptions<Data, DenoFrame>) {
    this.guard = buildGuard("guardDeno", options);
  }

  /** Upgrades a request, or rejects it. Returns the response in both cases. */
  async upgrade(
    request: Request,
    info: { readonly remoteAddr: object },
    handlers: DenoHandlers<Data>,
    options: DenoUpgradeOptions<Data> = {},
  ): Promise<Response> {
    const { data, ...upgradeOptions } = options;
    const { Deno } = globalThis as { Deno?: DenoRuntime };
    if (!Deno) throw new SluiceError("unsupported", "guardDeno() runs only on Deno.", { option: "guardDeno" });
    if (!isUpgrade(request)) return upgradeRequired();
    // Read it now: it is not available after the upgrade.
    const { hostname } = info.remoteAddr as { hostname?: string };
    const admission = await this.guard.admit({ peer: hostname, headers: request.headers }, data);
    if (!admission.allowed) return toResponse(admission.response);
    try {
      const { socket, response } = Deno.upgradeWebSocket(request, upgradeOptions);
      this.attach(socket, handlers, admission);
      return response;
    } catch (error) {
      admission.release();
      this.guard.config.reportError(error, "SLUICE_REQUEST_FAILED");
      return upgradeRequired();
    }
  }

  /** Returns the guarded connection of a socket. Throws for a socket that this guard did not upgrade. */
  connection(socket: WebSocket): Connection<Data, DenoFrame> {
    const connection = this.connections.get(socket);
    if (connection) return connection;
    throw optionError("invalid-option", "socket", "a socket that this guard upgraded", socket);
  }

  private attach(socket: WebSocket, handlers: DenoHandlers<Data>, { ip, data, release }: Admitted<Data>): void {
    socket.binaryType = "arraybuffer";
    const connection = this.guard.attach(new SocketPeer(socket as PlainSocket, ip, data));
    this.connections.set(socket, connection);
    const timer = setTimeout(() => {
      if (socket.readyState !== CONNECTING) return;
      release();
      socket.close();
    }, UPGRADE_TIMEOUT_MS);
    socket.addEventListener("open", () => {
      clearTimeout(timer);
      handlers.open?.(socket);
    });
    socket.addEventListener("message", ({ data }) => {
      connection.receive(data as DenoFrame, (frame, ingress) => handlers.message(socket, frame, ingress));
    });
    socket.addEventListener("error", (event) => {
      callListener(this.guard.config.onError, undefined, (event as ErrorEvent).error ?? event);
    });
    socket.addEventListener("close", ({ code, reason }) => {
      clearTimeout(timer);
      connection.end();
      release();
      handlers.close?.(socket, code, reason);
    });
  }
}

/** Guards `Deno.serve`: `upgrade` decides who may connect, and calls `message` with the frames that pass. */
export function guardDeno<Data = unknown>(options: GuardOptions<Data, DenoFrame> = {}): DenoGuard<Data> {
  return new DenoGuard(options);
}
