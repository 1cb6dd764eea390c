/** Captures responses on any server. */
import type { CaptureOptions, ResponseCapture } from "../gate/response-capture.ts";
import { CaptureBuffer } from "./capture-buffer.ts";
import { captureOnFetch } from "./fetch-capture.ts";
import { captureOnNode } from "./node-capture.ts";

/** Creates the `capture` of one request. */
export function captureResponse(options: CaptureOptions): ResponseCapture {
  return {
    onNode: (response) => captureOnNode(response, options),
    onFetch: (response) => captureOnFetch(response, options),
    without: (missing, error) =>
      void new CaptureBuffer(options).complete({ status: undefined, headers: {}, missing, error }),
  };
}
