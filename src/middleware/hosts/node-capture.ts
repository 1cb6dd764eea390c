/**
 * Captures the response that a handler writes to a Node response, and sends its end when it is stored.
 * What middleware before this one makes of it, such as a compressed body, and trailers are not captured.
 */
import type { ServerResponse } from "node:http";
import { isPromise, type MaybePromise } from "../../base/maybe-promise.ts";
import { MAX_AFTER_DISCONNECT_MS } from "../gate/after-disconnect.ts";
import type { CapturedResponse, CaptureOptions } from "../gate/response-capture.ts";
import { CaptureBuffer } from "./capture-buffer.ts";
import { isClosed, onceClosed } from "./node-close.ts";
import { copyHeaders } from "./node-head.ts";

type Method = (...args: unknown[]) => unknown;

/** Captures a response from now on. Disconnects change nothing: what is written afterwards is captured as well. */
export function captureOnNode(response: ServerResponse, options: CaptureOptions): void {
  const { write, end, writeHead, destroy } = response as unknown as Record<string, Method>;
  const call = (method: Method | undefined, args: unknown[]): unknown => method?.apply(response, args);
  const buffer = new CaptureBuffer(options);
  /** The headers when the head was written, with those passed to `writeHead`, and before others are added. */
  let written: Record<string, unknown> | undefined;
  /** The arguments of `write` for the chunk that completes the body, and thus the response. */
  let heldBack: unknown[] | undefined;
  /** Writes the head of an HTTP/2 response without a body, which is complete with its head. */
  let writeHeldHead: (() => void) | undefined;
  let storing: PromiseLike<void> | undefined;
  let afterDisconnect: ReturnType<typeof setTimeout> | undefined;

  const complete = (missing?: Pick<CapturedResponse, "missing" | "error">): MaybePromise<void> => {
    clearTimeout(afterDisconnect);
    const headers = plainHeaders(written ?? response.getHeaders());
    return buffer.complete({ status: response.statusCode, headers, ...missing });
  };
  /** Returns whether the response can still be captured. */
  const isCaptured = (chunk: unknown, encoding: unknown): boolean => {
    if (buffer.isComplete) return false;
    if (isEmpty(response) || buffer.add(toBytes(chunk, encoding))) return true;
    void complete({ missing: "too-long" });
    if (heldBack) call(write, heldBack);
    return false;
  };
  const own = (methods: Record<string, Method>): void => void Object.assign(response, methods);

  own({
    writeHead(...args) {
      const given = args.at(-1);
      written = {
        ...response.getHeaders(),
        ...(typeof given === "object" && given !== null ? copyHeaders(given) : {}),
      };
      if (buffer.isComplete || !isHttp2(response)) return call(writeHead, args);
      if (writeHeldHead) return response;
      response.statusCode = args[0] as number;
      if (!isEmpty(response)) return call(writeHead, args);
      const restore = pretend(response, ["headersSent"]);
      writeHeldHead = () => {
        restore();
        call(writeHead, args);
      };
      return response;
    },
    write(...args) {
      // After the end: Node reports the error once the response has really ended.
      if (storing) {
        void storing.then(() => call(write, args));
        return false;
      }
      const [chunk, encoding] = args;
      if (!isData(chunk) || !isCaptured(chunk, encoding)) return call(write, args);
      if (writeHeldHead) return isAccepted(args);
      const length = written ? written["content-length"] : response.getHeader("content-length");
      // A client takes the response for complete as soon as it has this chunk.
      if (heldBack || isEmpty(response) || Number(length ?? -1) !== buffer.length) return call(write, args);
      heldBack = args.filter((arg) => typeof arg !== "function");
      return isAccepted(args);
    },
    end(...args) {
      if (storing) {
        void storing.then(() => call(end, args));
        return response;
      }
      const [chunk, encoding] = args;
      const hasChunk = chunk !== undefined && chunk !== null && typeof chunk !== "function";
      if (hasChunk && !isData(chunk)) return call(end, args);
      if (buffer.isComplete || (hasChunk && !isCaptured(chunk, encoding))) return call(end, args);
      const stored = complete();
      const finish = (): void => {
        writeHeldHead?.();
        if (heldBack) call(write, heldBack);
        call(end, args);
      };
      if (!isPromise(stored)) {
        finish();
        return response;
      }
      // Meanwhile an error handler must not send a response of its own.
      const restore = pretend(response, ["headersSent", "writableEnded"]);
      storing = stored.then(() => {
        restore();
        storing = undefined;
        try {
          finish();
        } catch (error) {
          // Thrown to the handler if the response had not waited, such as for a status that can't be sent.
          response.destroy(error as Error);
        }
      });
      return response;
    },
    destroy(...args) {
      if (!storing) void complete({ missing: isClosed(response) ? "aborted" : "failed", error: args[0] });
      return call(destroy, args);
    },
  });

  const disconnected = (): void => {
    if (buffer.isComplete) return;
    afterDisconnect = setTimeout(() => void complete({ missing: "aborted" }), MAX_AFTER_DISCONNECT_MS);
    afterDisconnect.unref?.();
  };
  if (isClosed(response)) disconnected();
  else onceClosed(response, disconnected);
}

/** Whether the response has no body, whatever the handler writes. */
function isEmpty({ statusCode }: ServerResponse): boolean {
  return statusCode === 204 || statusCode === 304;
}

function isHttp2(response: ServerResponse): boolean {
  return "stream" in response;
}

/** Calls the callback of `write`, if there is one: a handler may wait for it before it ends the response. */
function isAccepted(args: readonly unknown[]): true {
  const callback = args.at(-1);
  if (typeof callback === "function") queueMicrotask(() => callback());
  return true;
}

function isData(chunk: unknown): chunk is string | Uint8Array {
  return typeof chunk === "string" || chunk instanceof Uint8Array;
}

/** A copy of the bytes: the handler may use its buffer again. */
function toBytes(chunk: unknown, encoding: unknown): Uint8Array {
  if (typeof chunk !== "string") return new Uint8Array(chunk as Uint8Array);
  const isUtf8 = typeof encoding !== "string" || /^utf-?8$/i.test(encoding);
  return isUtf8 ? new TextEncoder().encode(chunk) : new Uint8Array(Buffer.from(chunk, encoding as BufferEncoding));
}

function plainHeaders(headers: Record<string, unknown>): Record<string, string | string[]> {
  const plain: Record<string, string | string[]> = {};
  for (const name in headers) {
    const value = headers[name];
    if (value !== undefined) plain[name] = Array.isArray(value) ? value.map(String) : String(value);
  }
  return plain;
}

/** Makes properties `true`. Returns a function that restores them. */
function pretend(target: object, names: readonly string[]): () => void {
  const before = names.map((name) => Object.getOwnPropertyDescriptor(target, name));
  for (const name of names) Object.defineProperty(target, name, { value: true, configurable: true });
  return () => {
    names.forEach((name, i) => {
      const descriptor = before[i];
      if (descriptor) Object.defineProperty(target, name, descriptor);
      else Reflect.deleteProperty(target, name);
    });
  };
}
