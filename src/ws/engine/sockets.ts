/** Helpers shared by the servers whose sockets have `readyState`, `send` and `close`. */
import type { Peer } from "./peer.ts";

/** `readyState` values of a WebSocket. */
export const CONNECTING = 0;
const OPEN = 1;
export const CLOSED = 3;

/**
 * The payload limit to set on a server whose frames may have `maxBytes`. It is four times as high, because the server closes
 * larger frames by itself while it reads them, and the guard can only reply to frames that it receives.
 */
export function serverMaxPayload(maxBytes: number): number {
  return 4 * maxBytes;
}

/** Time for a client to reply to a close frame, in ms, before its socket is destroyed: some never reply and keep sending. */
const CLOSE_TIMEOUT_MS = 1000;

/** Calls `terminate` after the close timeout. Returns the function that cancels it, to call when the socket has closed. */
export function afterCloseTimeout(terminate: () => void): () => void {
  const timer: unknown = setTimeout(terminate, CLOSE_TIMEOUT_MS);
  // On Node and Bun, a pending timer would keep the process alive. Other runtimes return a number.
  (timer as { unref?(): void }).unref?.();
  return () => clearTimeout(timer as number);
}

/** The socket methods that a `SocketPeer` uses. */
export interface PlainSocket {
  readonly readyState: number;
  send(message: string | Uint8Array): unknown;
  close(code: number, reason: string): unknown;
}

/** A peer for a plain WebSocket. A class, because per-instance getters would give every peer its own hidden class. */
export class SocketPeer<Data> implements Peer<Data, never> {
  readonly id: string;
  readonly ip: string | undefined;
  protected readonly socket: PlainSocket;
  private ownData: Data | undefined;

  constructor(socket: PlainSocket, ip: string | undefined, data?: Data, id: string = crypto.randomUUID()) {
    this.id = id;
    this.ip = ip;
    this.socket = socket;
    this.ownData = data;
  }

  get data(): Data | undefined {
    return this.ownData;
  }

  set data(data: Data | undefined) {
    this.ownData = data;
  }

  get isOpen(): boolean {
    return this.socket.readyState === OPEN;
  }

  send(message: string | Uint8Array): void {
    this.socket.send(message);
  }

  close(code: number, reason: string): void {
    this.socket.close(code, reason);
  }
}
