/** Reads the body of a request for its fingerprint, and leaves it to the handler. */
import type { IncomingMessage } from "node:http";
import { SluiceError } from "../../base/errors.ts";
import type { MaybePromise } from "../../base/maybe-promise.ts";
import { hasNodeBody } from "../gate/preflight.ts";
import type { HandlerArgs, RequestBody, RequestReader } from "../gate/request-reader.ts";
import { ByteBuffer } from "../hosts/byte-buffer.ts";
import { isClosed, onceClosed } from "../hosts/node-close.ts";
import { parsedBody } from "../hosts/request-body.ts";
import { deepJson } from "./deep-json.ts";

/** How `idempotent` reads a request. */
export interface IdempotencyReader<Args extends HandlerArgs> extends RequestReader<Args> {
  /**
   * The body, which the handler can still read; `undefined` if it is longer than `maxBytes`, or the client disconnects
   * before it is complete.
   */
  payload(args: Args, maxBytes: number): MaybePromise<Uint8Array | undefined>;
  /** Aborted when the client disconnects. */
  signal(args: Args): AbortSignal | undefined;
}

const EMPTY = new Uint8Array();

/** The body of a Node request as its parser has left it. Throws if no parser has run. */
export function parsedPayload(request: IncomingMessage, parsed: unknown, maxBytes: number): Uint8Array | undefined {
  if (!hasNodeBody(request)) return EMPTY;
  if (!isParsed(request, parsed)) throw notParsed();
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) return undefined;
  return comparablePayload(parsedBody(parsed, maxBytes), maxBytes);
}

/** A body that was read before, as bytes. */
export function comparablePayload(body: RequestBody | undefined, maxBytes: number): Uint8Array | undefined {
  if (body === undefined || body instanceof Uint8Array) return body;
  const text = textOf(body.parsed, maxBytes);
  const bytes = text === undefined ? undefined : new TextEncoder().encode(text);
  return bytes && bytes.length > maxBytes ? undefined : bytes;
}

/** Whether a parser has read the body. Some platforms set it without reading the stream; Express 4 sets an empty object. */
function isParsed({ readableDidRead }: IncomingMessage, parsed: unknown): boolean {
  const { pipe, getReader } = (parsed ?? {}) as { pipe?: unknown; getReader?: unknown };
  if (typeof pipe === "function" || typeof getReader === "function") return false;
  if (parsed === undefined || parsed === null) return false;
  return readableDidRead || typeof parsed !== "object" || Object.keys(parsed).length > 0;
}

function notParsed(): SluiceError {
  const message =
    "idempotent: the body has not been parsed; mount it after the body parser, or set fingerprint. A parser must accept the content type of the request.";
  return new SluiceError("invalid-option", message, { option: "idempotent", expected: "a parsed body" });
}

/** A parsed value as text; `undefined` if it is too long. Members in another order are another text. */
function textOf(parsed: unknown, maxBytes: number): string | undefined {
  try {
    const text = plainText(parsed) ?? deepJson(parsed, maxBytes, (value) => checkPlain("", value));
    if (text === undefined || text.length > 0) return text;
  } catch (cause) {
    throw notComparable(cause);
  }
  throw notComparable();
}

/** The text of a value that can be formatted recursively; empty if it is no value of JSON. */
function plainText(parsed: unknown): string | undefined {
  try {
    const text = (JSON.stringify(parsed) as string | undefined) ?? "";
    // A Map, a file or another class has its contents elsewhere, and all would be equal.
    if (text.includes("{}")) JSON.stringify(parsed, checkPlain);
    return text;
  } catch (error) {
    // Nested so deeply that the stack overflows: a client chooses that.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function checkPlain(_name: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const prototype = Object.getPrototypeOf(value);
  if (prototype === null || prototype === Object.prototype || Object.keys(value).length > 0) return value;
  throw new TypeError("The body contains an object whose contents are not its members.");
}

function notComparable(cause?: unknown): SluiceError {
  const message = "idempotent: the parsed body can't be compared as JSON; set fingerprint.";
  return new SluiceError("invalid-option", message, { option: "fingerprint", expected: "a function", cause });
}

/** The body of a Node request that no parser has read. Its handler reads the same bytes from the request. */
export function streamPayload(
  request: IncomingMessage,
  parsed: unknown,
  maxBytes: number,
): MaybePromise<Uint8Array | undefined> {
  if (request.readableDidRead) return parsedPayload(request, parsed, maxBytes);
  if (!hasNodeBody(request)) return EMPTY;
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) return undefined;
  return new Promise((resolve) => {
    const buffer = new ByteBuffer(maxBytes);
    const finish = (bytes: Uint8Array | undefined): void => {
      request.off("readable", read).off("close", fail).off("error", fail);
      resolve(bytes);
    };
    const fail = (): void => finish(undefined);
    const read = (): void => {
      while (request.readableLength > 0) {
        if (buffer.add(request.read() as Uint8Array)) continue;
        finish(undefined);
        return;
      }
      if (!hasArrived(request)) return;
      const bytes = buffer.bytes();
      // In the same tick as the last `read`, because the request would emit "end" in the next one.
      if (bytes.length > 0) request.unshift(bytes);
      finish(bytes);
    };
    request.on("readable", read).on("close", fail).on("error", fail);
  });
}

/** Whether all of a body is in the request's buffer or was read. HTTP/2 reports `complete` only after "end". */
function hasArrived(request: IncomingMessage): boolean {
  const { stream } = request as { stream?: { readableEnded?: boolean } };
  return stream ? stream.readableEnded === true : request.complete;
}

/** The body of a `Request`, from a clone. Throws if it was read before. */
export async function clonedPayload(request: Request, maxBytes: number): Promise<Uint8Array | undefined> {
  if (request.bodyUsed) {
    const message =
      "idempotent: the body was read before; mount it before the code that reads the body, or set fingerprint.";
    throw new SluiceError("invalid-option", message, { option: "idempotent", expected: "a body that is not read" });
  }
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) return undefined;
  const reader = request.clone().body?.getReader();
  const buffer = new ByteBuffer(maxBytes);
  try {
    while (reader) {
      const { done, value } = await reader.read();
      if (done) break;
      if (buffer.add(value)) continue;
      reader.cancel().catch(() => {});
      return undefined;
    }
  } catch {
    // The client has disconnected.
    return undefined;
  }
  return buffer.bytes();
}

/** A signal that is aborted when the connection of a Node response closes. */
export function closeSignal(response: Parameters<typeof isClosed>[0]): AbortSignal {
  const controller = new AbortController();
  if (isClosed(response)) controller.abort();
  else onceClosed(response, () => controller.abort());
  return controller.signal;
}
