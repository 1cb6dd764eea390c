/** Turns a request of Node's `http` servers into a `Request`. */
import type { IncomingMessage } from "node:http";
import { parsedBody } from "./request-body.ts";

/** Members that frameworks add. */
interface FrameworkRequest extends IncomingMessage {
  /** Express: the target before a router has removed the path that it is mounted at. */
  readonly originalUrl?: string;
  /** What a body parser has read. */
  readonly body?: unknown;
}

/** Returns the request; `undefined` if its target, host or method is not valid. */
export function requestOf(incoming: FrameworkRequest, signal: AbortSignal): Request | undefined {
  // Clients of HTTP/2 may send "patch". A `Request` changes the case of some methods only.
  const method = (incoming.method ?? "GET").toUpperCase();
  const hasBody = method !== "GET" && method !== "HEAD";
  const body = hasBody ? bodyOf(incoming) : null;
  // Needed for streams, and not in the types of all runtimes.
  const duplex = { duplex: "half" } as RequestInit;
  try {
    return new Request(urlOf(incoming), { method, headers: headersOf(incoming), body, signal, ...duplex });
  } catch {
    return undefined;
  }
}

function urlOf(incoming: FrameworkRequest): string {
  const { headers, originalUrl, url = "/", socket } = incoming;
  const target = originalUrl ?? url;
  const host = String(headers.host ?? headers[":authority"] ?? "localhost");
  const scheme = (socket as { encrypted?: boolean }).encrypted ? "https" : "http";
  // A proxy may be sent a whole URL. Its host is not that of the header, which is checked.
  if (!target.startsWith("/")) return target;
  // A part of it would become the path, or credentials, which only Node rejects in a Request.
  if (/[/\\?#@]/.test(host)) throw new TypeError("invalid host");
  // Not resolved against a base: that would take "//evil.example/" for a host.
  return new URL(`${scheme}://${host}${target}`).href;
}

function headersOf({ headers }: IncomingMessage): Headers {
  const copy = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    // HTTP/2 has pseudo headers.
    if (value === undefined || name.startsWith(":")) continue;
    for (const one of [value].flat()) copy.append(name, one);
  }
  return copy;
}

/** The body as a stream, or as a body parser has left it. */
function bodyOf(incoming: FrameworkRequest): BodyInit | null {
  if (!incoming.readableDidRead) return streamOf(incoming);
  const parsed = parsedBody(incoming.body, Number.POSITIVE_INFINITY);
  if (parsed === undefined) return null;
  return (parsed instanceof Uint8Array ? parsed : JSON.stringify(parsed.parsed)) as BodyInit;
}

/** Reads as fast as the handler does. */
function streamOf(incoming: IncomingMessage): ReadableStream<Uint8Array> {
  // Without destroying the request, and with it the connection that the response needs.
  const chunks = incoming.iterator({ destroyOnReturn: false }) as AsyncIterator<Uint8Array>;
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await chunks.next();
        if (done) controller.close();
        else controller.enqueue(new Uint8Array(value));
      },
      async cancel() {
        await chunks.return?.();
        // The rest is discarded: the next request on the connection comes after it.
        incoming.resume();
      },
    },
    // Nothing is read ahead: Node discards a body that was not read, and only then.
    { highWaterMark: 0 },
  );
}
