/** How the response of a request is captured, so that `idempotent` stores it before its end is sent. */
import type { ServerResponse } from "node:http";
import type { MaybePromise } from "../../base/maybe-promise.ts";

/**
 * Captures the response of a request. `captureResponse` creates one; servers don't import it, so applications without
 * `idempotent` don't bundle it.
 */
export interface ResponseCapture {
  /** Captures what is written to a Node response from now on. */
  onNode(response: ServerResponse): void;
  /** Captures a `Response`. Returns the one to send. */
  onFetch(response: Response): Promise<Response>;
  /** Reports that there is no response, because the handler threw or did not run. */
  without(missing: "failed" | "aborted", error?: unknown): void;
}

/** How a response is captured: what the handler, or the middleware after this one, has written. */
export interface CaptureOptions {
  /** The longest body that is captured, in bytes. */
  readonly maxBytes: number;
  /**
   * Called once with the response. Its end, or a short response as a whole, is sent when the promise settles, so bound
   * it in time. Not awaited if the body is missing. Errors are ignored.
   */
  complete(captured: CapturedResponse): MaybePromise<void>;
}

/** The response of a request. */
export interface CapturedResponse {
  /** The status; `undefined` if there is no response. */
  readonly status: number | undefined;
  /** Headers by lower-case name, with those that earlier middleware has set. */
  readonly headers: Readonly<Record<string, string | string[]>>;
  /** The body, empty for 204 and 304; `undefined` if it is missing. */
  readonly body: Uint8Array | undefined;
  /**
   * Why the body is missing: it is longer than `maxBytes`, the handler failed, or the client disconnected and the handler
   * did not run, or did not end its response within 60 s.
   */
  readonly missing?: "too-long" | "failed" | "aborted";
  /** The error, if the handler threw one and the server passes it on. */
  readonly error?: unknown;
}
