/** What sockets of all servers have in common. */
import type { Peer } from "./peer.ts";

/** The `readyState` of a socket on its way, of one that is open, and of one that is gone. */
export const CONNECTING = 0;
const OPEN = 1;
export const CLOSED = 3;

/** How much of a frame a server may read before the guard sees it: what is larger is closed without being read to its end. */
export function mostReadOf(maxBytes: number): number {
  return 4 * maxBytes;
}

/** How long a client has to answer a close before its socket is destroyed: some never do, and go on sending. */
const CLOSE_TIMEOUT_MS = 1000;

/** Runs `terminate` unless the client has answered a close in time. Returns what to call when it has. */
export function afterCloseTimeout(terminate: () => void): () => void {
  const timer: unknown = setTimeout(terminate, CLOSE_TIMEOUT_MS);
  // Where timers can hold a process open, this one must not.
  (timer as { unref?(): void }).unref?.();
  return () => clearTimeout(timer as number);
}

/** What is used of a socket to answer it. */
export interface PlainSocket {
  readonly readyState: number;
  send(message: string | Uint8Array): unknown;
  close(code: number, reason: string): unknown;
}

/**
 * The other end of a socket. A class, and not an object for each, whose getters would make it another kind of object each
 * time: engines are slow with those.
 */
export class SocketPeer<Data> implements Peer<Data, never> {
  readonly id: string;
  readonly ip: string | undefined;
  protected readonly socket: PlainSocket;
  private known: Data | undefined;

  constructor(socket: PlainSocket, ip: string | undefined, data?: Data, id: string = crypto.randomUUID()) {
    this.id = id;
    this.ip = ip;
    this.socket = socket;
    this.known = data;
  }

  get data(): Data | undefined {
    return this.known;
  }

  set data(data: Data | undefined) {
    this.known = data;
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
