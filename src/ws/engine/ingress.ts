/** Frames as the guard receives them, and the metadata that keys, costs and limits are derived from. */
import { optionError } from "../../base/errors.ts";

/** A frame as a server passes it on: text or binary. */
export type Frame = string | ArrayBuffer | ArrayBufferView;

/** Metadata of a received frame, without its payload. Passed to `key`, `cost`, `limiter` and the listeners. */
export interface Ingress<Data = unknown> {
  /** The type of the frame: `""` without `typeOf`, and `"!invalid"` if `typeOf` failed or returned an unlisted type. */
  readonly type: string;
  /** The id of the connection. */
  readonly id: string;
  /** The client's IP address, if known; for IPv6, its network. */
  readonly ip: string | undefined;
  /** The data of the connection, such as a verified `userId`. */
  readonly data: Data | undefined;
  /** When the frame was received, in milliseconds since the epoch. */
  readonly receivedAt: number;
}

/** Handles a frame that passed all checks. Until its promise settles, the frame counts towards `maxPending`. */
export type HandleFrame<Data = unknown, F = Frame> = (frame: F, ingress: Ingress<Data>) => unknown;

/** The type of a frame that can't be parsed, or whose type is not listed in `types`. */
export const INVALID = "!invalid";

const encoder: TextEncoder = new TextEncoder();

/**
 * Returns the size of a frame in bytes. For text that is certainly below or above `maxBytes` it returns the length in
 * UTF-16 code units, which is on the same side of the limit and needs no encoding.
 */
export function bytesOf(frame: Frame, maxBytes: number): number {
  if (typeof frame === "string") {
    // A UTF-16 code unit takes one to three bytes in UTF-8.
    if (frame.length > maxBytes || frame.length * 3 <= maxBytes) return frame.length;
    return encoder.encode(frame).length;
  }
  const bytes: unknown = frame?.byteLength;
  if (typeof bytes === "number") return bytes;
  throw optionError("invalid-option", "frame", "a string, an ArrayBuffer or an ArrayBufferView", frame);
}
