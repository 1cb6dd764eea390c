/** A frame at the door: what is known of it before anybody reads it. Its payload is not among that. */

import { optionError } from "../../core/errors.ts";

/** A frame as servers hand it over: text, or bytes. */
export type Frame = string | ArrayBuffer | ArrayBufferView;

/** What keys and costs are made of. */
export interface Ingress<Data = unknown> {
  /** What the frame is: `""` without `typeOf`, and `!invalid` for what it can't tell. */
  readonly type: string;
  /** The connection. */
  readonly id: string;
  /** The client's address, if it is known; of IPv6 the network that one client has. */
  readonly ip: string | undefined;
  /** What the connection carries, such as a verified `userId`. */
  readonly data: Data | undefined;
  /** When the frame came, in milliseconds since the epoch. */
  readonly receivedAt: number;
}

/** The type of a frame that can't be read, or that nobody knows. */
export const INVALID = "!invalid";

const encoder: TextEncoder = new TextEncoder();

/** How many bytes a frame has on the wire; of a text that is surely smaller or larger than `most`, only that it is. */
export function bytesOf(frame: Frame, most: number): number {
  if (typeof frame === "string") {
    // A unit of UTF-16 has one to three bytes: most texts need no counting.
    if (frame.length > most || frame.length * 3 <= most) return frame.length;
    return encoder.encode(frame).length;
  }
  const bytes: unknown = frame?.byteLength;
  if (typeof bytes === "number") return bytes;
  throw optionError("invalid-option", "frame", "a string, an ArrayBuffer or a view of one", frame);
}
