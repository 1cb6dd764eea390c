/** The peer of a `ws` socket, which stops reading soon after a close. */
import { afterCloseTimeout, SocketPeer } from "../engine/sockets.ts";

/** A message of `ws`: its form depends on the `binaryType` of the socket. */
export type WsData = Uint8Array | ArrayBuffer | Uint8Array[];

/** The part of a `ws` socket that the guard uses. */
export interface WsSocket {
  /** The state of the connection, as in browsers. */
  readonly readyState: number;
  /** The type of binary messages. */
  readonly binaryType?: string;
  /** Listens for messages, pings, the end or errors. */
  on(event: "message", listener: (data: WsData, isBinary: boolean) => void): unknown;
  on(event: "ping" | "pong", listener: (data: Uint8Array) => void): unknown;
  on(event: "close", listener: () => void): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
  /** Sends a message. */
  send(data: string | Uint8Array): void;
  /** Answers a ping. */
  pong(data: Uint8Array): void;
  /** Closes the connection. */
  close(code: number, reason: string): void;
  /** Stops reading from the connection. */
  pause?(): void;
  /** Closes the connection without a handshake. */
  terminate?(): void;
}

/**
 * Bytes that are read after a close, or `maxBytes` if higher: the client may have sent frames before it received the close.
 */
const MAX_BYTES_AFTER_CLOSE = 65_536;
/** Bytes that a frame counts besides its payload. */
const FRAME_OVERHEAD_BYTES = 64;

/** A peer that terminates its socket soon after a close: `ws` would read and inflate frames for another 30 seconds. */
export class WsPeer<Data> extends SocketPeer<Data> {
  declare protected readonly socket: WsSocket;
  /** Cancels the termination. Call it when the socket has closed. */
  cancelTermination: () => void = () => {};
  private bytesAfterClose: number;

  constructor(
    socket: WsSocket,
    client: { readonly ip: string | undefined; readonly data: Data | undefined },
    maxBytes: number,
  ) {
    super(socket, client.ip, client.data);
    this.bytesAfterClose = Math.max(MAX_BYTES_AFTER_CLOSE, maxBytes);
  }

  override close(code: number, reason: string): void {
    super.close(code, reason);
    this.cancelTermination = afterCloseTimeout(() => this.socket.terminate?.());
  }

  /** Counts a frame received after the close. Pauses a client that keeps sending; the close timeout then destroys it. */
  dropAfterClose(bytes: number): void {
    this.bytesAfterClose -= bytes + FRAME_OVERHEAD_BYTES;
    if (this.bytesAfterClose < 0) this.socket.pause?.();
  }
}
