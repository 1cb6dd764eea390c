/** The open Server-Sent Events streams of a dashboard. All of them get the same messages. */
import { monotonicMs } from "../../base/clock.ts";

/** Connections at once. */
const MAX_STREAMS = 20;
/** A stream is closed after this time. The browser connects again, and is authorised again. */
const MAX_STREAM_MS = 600_000;
/** A new stream starts with the last message, unless that is older. */
const MAX_MESSAGE_AGE_MS = 500;
/** How long the browser waits before it connects again, in ms. */
const RETRY = "retry: 1000\n\n";
/** A stream is closed if its client reads nothing for this long, so that it does not occupy a connection. */
const MAX_UNREAD_MS = 30_000;

interface Stream {
  readonly controller: ReadableStreamDefaultController<Uint8Array>;
  readonly openedAt: number;
  readAt: number;
}

/** Sends messages to all connected browsers. */
export class EventStreams {
  private readonly streams: Set<Stream> = new Set();
  private readonly encoder: TextEncoder = new TextEncoder();
  /** One array for all streams, which only read it: a message has up to 50 kB. */
  private last: { readonly bytes: Uint8Array; readonly sentAt: number } | undefined;

  get size(): number {
    return this.streams.size;
  }

  /** Opens a stream that starts with a message; `undefined` if there are too many. */
  open(message: () => string): ReadableStream<Uint8Array> | undefined {
    if (this.streams.size >= MAX_STREAMS) return undefined;
    const now = monotonicMs();
    const isCurrent = this.last !== undefined && now - this.last.sentAt < MAX_MESSAGE_AGE_MS;
    const bytes = isCurrent && this.last ? this.last.bytes : this.encode(message(), now);
    let stream: Stream;
    return new ReadableStream<Uint8Array>({
      start: (controller) => {
        stream = { controller, openedAt: now, readAt: now };
        this.streams.add(stream);
        controller.enqueue(this.encoder.encode(RETRY));
        controller.enqueue(bytes);
      },
      cancel: () => {
        this.streams.delete(stream);
      },
    });
  }

  /** Sends a message. A client that has not read the last one yet misses it, so that nothing piles up. */
  send(message: string): void {
    const now = monotonicMs();
    const bytes = this.encode(message, now);
    for (const stream of this.streams) {
      const { controller, openedAt } = stream;
      if (now - openedAt >= MAX_STREAM_MS || now - stream.readAt >= MAX_UNREAD_MS) this.close(stream);
      else if ((controller.desiredSize ?? 0) > 0) {
        controller.enqueue(bytes);
        stream.readAt = now;
      }
    }
  }

  closeAll(): void {
    for (const stream of this.streams) this.close(stream);
  }

  private close(stream: Stream): void {
    this.streams.delete(stream);
    stream.controller.close();
  }

  private encode(message: string, now: number): Uint8Array {
    // JSON has no line breaks, which would need a `data:` each.
    const bytes = this.encoder.encode(`data: ${message}\n\n`);
    this.last = { bytes, sentAt: now };
    return bytes;
  }
}
