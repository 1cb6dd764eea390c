/** The part of a socket that the guard uses, for servers without an adapter of their own. */
import type { Frame } from "./ingress.ts";

/** The client side of a connection, as the guard uses it. */
export interface Peer<Data = unknown, F = Frame, Message = string | Uint8Array> {
  /** Unique id of the connection. */
  readonly id: string;
  /** The client's IP address, as returned by `clientIp` of `sluice/http`. */
  readonly ip?: string | undefined;
  /** Data that keys are made of, such as the verified user and tenant. Read for every frame. */
  data?: Data | undefined;
  /** Whether the socket is open, if it is known before `end()` is called. Default: open until `end()`. */
  readonly isOpen?: boolean | undefined;
  /** Sends a message. `frame` is the rejected frame that it replies to; it is absent for a ping. */
  send(message: Message, frame?: F): void;
  /** Closes the socket. */
  close(code: number, reason: string): void;
}
