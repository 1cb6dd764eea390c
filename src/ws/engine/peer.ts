/** The other end of a connection. */
import type { Frame } from "./ingress.ts";

/** The other end of a connection, told by what is used of it. */
export interface Peer<Data = unknown, F = Frame, Message = string | Uint8Array> {
  /** Another one for every connection. */
  readonly id: string;
  /** The client's address, as `clientIp` of `sluice/http` finds it. */
  readonly ip?: string | undefined;
  /** What keys are made of: the user and the tenant, once they were verified. It is read with every frame. */
  data?: Data | undefined;
  /** Whether it is open, where the socket knows that before the guard is told. Default: until it ends. */
  readonly isOpen?: boolean | undefined;
  /** Sends a message. The frame is the one that it answers; a ping has none. */
  send(message: Message, frame?: F): void;
  close(code: number, reason: string): void;
}
