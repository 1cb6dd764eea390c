/** Collects the body of a response, and passes the response on to be stored. */
import { isPromise, type MaybePromise } from "../../base/maybe-promise.ts";
import type { CapturedResponse, CaptureOptions } from "../gate/response-capture.ts";
import { ByteBuffer } from "./byte-buffer.ts";

export class CaptureBuffer extends ByteBuffer {
  /** Whether `complete` was called. */
  isComplete = false;
  private readonly options: CaptureOptions;

  constructor(options: CaptureOptions) {
    super(options.maxBytes);
    this.options = options;
  }

  /** Calls `complete` of the options with the response, once. Never throws. */
  complete(captured: Omit<CapturedResponse, "body">): MaybePromise<void> {
    if (this.isComplete) return;
    this.isComplete = true;
    const body = captured.missing === undefined ? this.bytes() : undefined;
    try {
      const stored = this.options.complete({ ...captured, body });
      return isPromise(stored) ? stored.then(undefined, () => {}) : undefined;
    } catch {
      // The response is sent whether it was stored or not.
    }
  }
}
