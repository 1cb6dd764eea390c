/** Reads the body of a request that is answered, such as the solution of a challenge. */
import type { IncomingMessage } from "node:http";
import type { RequestBody } from "../gate/request-reader.ts";
import { ByteBuffer } from "./byte-buffer.ts";

/** How long a body may take to arrive, in ms. */
const MAX_BODY_MS = 10_000;

/**
 * Reads the body of a Node request, which its handler can't read again. If a parser has read it, `parsed` is its result:
 * text and bytes are returned as bytes, other values, such as those of forms and JSON, as they are.
 */
export function readNodeBody(
  request: IncomingMessage,
  parsed: unknown,
  maxBytes: number,
): Promise<RequestBody | undefined> {
  return new Promise((resolve) => {
    if (Number(request.headers["content-length"] ?? 0) > maxBytes) return resolve(undefined);
    if (request.readableDidRead) return resolve(parsedBody(parsed, maxBytes));
    if (request.destroyed) return resolve(undefined);
    const buffer = new ByteBuffer(maxBytes);
    const finish = (body: Uint8Array | undefined): void => {
      clearTimeout(timer);
      request.off("data", add).off("end", end).off("close", fail).off("error", fail);
      // Node discards the rest when the response has been sent.
      request.pause();
      resolve(body);
    };
    const add = (chunk: Uint8Array): void => {
      if (!buffer.add(chunk)) finish(undefined);
    };
    const end = (): void => finish(buffer.bytes());
    const fail = (): void => finish(undefined);
    const timer = setTimeout(fail, MAX_BODY_MS);
    request.on("data", add).on("end", end).on("close", fail).on("error", fail);
  });
}

/** The result of a body parser. */
export function parsedBody(parsed: unknown, maxBytes: number): RequestBody | undefined {
  if (parsed === undefined || parsed === null) return undefined;
  const bytes = typeof parsed === "string" ? new TextEncoder().encode(parsed) : parsed;
  if (!(bytes instanceof Uint8Array)) return { parsed };
  return bytes.byteLength > maxBytes ? undefined : bytes;
}

/** Reads a clone of the body, so the handler can read it as well. */
export async function readBody(request: Request, maxBytes: number): Promise<Uint8Array | undefined> {
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) return undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    const reader = request.clone().body?.getReader();
    const buffer = new ByteBuffer(maxBytes);
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), MAX_BODY_MS);
    });
    while (reader) {
      const result = await Promise.race([reader.read(), late]);
      if (result?.done) break;
      if (result && buffer.add(result.value)) continue;
      reader.cancel().catch(() => {});
      return undefined;
    }
    return buffer.bytes();
  } catch {
    // The body was read before, or the client has disconnected.
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}
