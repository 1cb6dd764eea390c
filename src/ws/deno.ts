/** For `Deno.serve`. Connections are refused in place of the upgrade. */

import { SluiceError } from "../core/errors.ts";
import { checkOptions } from "../core/options.ts";
import { ADMISSION_OPTIONS } from "./admission.ts";
import type { Connection } from "./connection.ts";
import { Guard, type Options } from "./guard.ts";
import type { Frame, Ingress } from "./ingress.ts";
import { checkRules, GUARD_OPTIONS } from "./options.ts";
import { isUpgrade, upgradeRequired } from "./upgrade.ts";

/** What is used of Deno. */
interface DenoRuntime {
  upgradeWebSocket(request: Request, options?: object): { socket: WebSocket; response: Response };
}

/** What is done with a connection. */
export interface DenoHandlers<Data> {
  open?(socket: WebSocket, connection: Connection<Data>): unknown;
  /** Gets what may pass: texts as strings, the rest as ArrayBuffers. */
  message(socket: WebSocket, frame: Frame, ingress: Ingress<Data>): unknown;
  close?(socket: WebSocket, code: number, reason: string): unknown;
}

/** Guards the connections of `Deno.serve`. */
export class DenoGuard<Data> {
  private readonly guard: Guard<Data>;
  private readonly onError: ((error: unknown) => unknown) | undefined;

  constructor(options: Options<Data>) {
    checkOptions("guardDeno", options, [...GUARD_OPTIONS, ...ADMISSION_OPTIONS]);
    this.guard = new Guard(checkRules(options), options);
    this.onError = options.onError;
  }

  /** Upgrades a request, or refuses it. `data` is what is known of who connects, such as a verified user. */
  async upgrade(
    request: Request,
    info: { readonly remoteAddr: object },
    handlers: DenoHandlers<Data>,
    more: { data?: Data } & Record<string, unknown> = {},
  ): Promise<Response> {
    const { data, ...upgrading } = more;
    const { Deno } = globalThis as { Deno?: DenoRuntime };
    if (!Deno) throw new SluiceError("unsupported", "guardDeno", "Deno");
    if (!isUpgrade(request)) return upgradeRequired();
    // After the upgrade the address can't be asked for any more.
    const { hostname } = info.remoteAddr as { hostname?: string };
    const admission = await this.guard.admit({ peer: hostname, headers: request.headers }, data);
    if (!admission.allowed) return new Response(admission.answer.body, admission.answer);
    const { ip, release } = admission;
    try {
      const { socket, response } = Deno.upgradeWebSocket(request, upgrading);
      this.listen(socket, ip, data, handlers, release);
      return response;
    } catch (error) {
      release();
      throw error;
    }
  }

  private listen(
    socket: WebSocket,
    ip: string | undefined,
    data: Data | undefined,
    handlers: DenoHandlers<Data>,
    release: () => void,
  ): void {
    socket.binaryType = "arraybuffer";
    const connection = this.guard.attach({
      id: crypto.randomUUID(),
      ip,
      data,
      send: (message) => socket.send(message as string | Uint8Array<ArrayBuffer>),
      close: (code, reason) => socket.close(code, reason),
    });
    socket.addEventListener("open", () => handlers.open?.(socket, connection));
    socket.addEventListener("message", ({ data }) => {
      connection.receive(data as string | ArrayBuffer, (frame, ingress) => handlers.message(socket, frame, ingress));
    });
    socket.addEventListener("error", (event) => this.onError?.((event as ErrorEvent).error ?? event));
    socket.addEventListener("close", ({ code, reason }) => {
      connection.end();
      release();
      handlers.close?.(socket, code, reason);
    });
  }
}

/** Guards `Deno.serve`: `upgrade` decides who may connect, and hands over what they may send. */
export function guardDeno<Data = unknown>(options: Options<Data> = {}): DenoGuard<Data> {
  return new DenoGuard(options);
}
