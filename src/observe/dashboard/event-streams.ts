/** The open Server-Sent Events streams of a dashboard. All of them get the same messages. */
import { monotonicMs } from "../../core/clock.ts";

/** Connections at once. */
const MAX_STREAMS = 20;
/** A stream is closed after this time. The browser connects again, and is authorised again. */
const MAX_STREAM_MS = 600_000;
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
  private readonly encoder = new TextEncoder();

  get size(): number {
    return this.streams.size;
  }

  /** Opens a stream that starts with a message; `undefined` if there are too many. */
  open(message: () => string): ReadableStream<Uint8Array> | undefined {
    if (this.streams.size >= MAX_STREAMS) return undefined;
    const now = monotonicMs();
    let stream: Stream;
    return new ReadableStream<Uint8Array>({
      start: (controller) => {
        stream = { controller, openedAt: now, readAt: now };
        this.streams.add(stream);
        // How long the browser waits before it connects again, in ms.
        controller.enqueue(this.encoder.encode(`retry: 1000\n\n${eventOf(message())}`));
      },
      cancel: () => {
        this.streams.delete(stream);
      },
    });
  }

  /** Sends a message. A client that has not read the last one yet misses it, so that nothing piles up. */
  send(message: string): void {
    const now = monotonicMs();
    // One array for all: it is only read.
    const bytes = this.encoder.encode(eventOf(message));
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
}

/** JSON has no line breaks, which would need a `data:` each. */
function eventOf(json: string): string {
  return `data: ${json}\n\n`;
}
