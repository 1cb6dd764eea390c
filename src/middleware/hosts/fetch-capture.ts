/** Captures the `Response` of a handler, and sends its end when it is stored. */
import { MAX_AFTER_DISCONNECT_MS } from "../gate/after-disconnect.ts";
import type { CaptureOptions } from "../gate/response-capture.ts";
import { CaptureBuffer } from "./capture-buffer.ts";

/**
 * Reads the body up to `maxBytes`, whether the client does or not. If all of it is there at once, the whole response
 * waits until it is stored; otherwise it is sent as it is produced, and its end waits. Returns the response to send.
 */
export async function captureOnFetch(response: Response, options: CaptureOptions): Promise<Response> {
  const { status, body } = response;
  const head = { status, headers: plainHeaders(response.headers) };
  const buffer = new CaptureBuffer(options);
  // An upgrade must be returned as it is.
  if (body === null || status === 101) {
    await buffer.complete(head);
    return response;
  }
  const reader = body.getReader();
  const chunks: Uint8Array[] = [];
  let read = reader.read();
  let fits = true;
  const nextTask = new Promise<undefined>((resolve) => setTimeout(resolve, 0));
  while (fits) {
    // An error of the stream is reported below.
    const result = await Promise.race([read, nextTask]).catch(() => undefined);
    if (result === undefined) break;
    if (result.done) {
      const bytes = buffer.bytes();
      await buffer.complete(head);
      return new Response(bytes, response);
    }
    chunks.push(result.value);
    fits = buffer.add(result.value);
    if (fits) read = reader.read();
  }
  return new Response(captureStream(), response);

  function captureStream(): ReadableStream<Uint8Array> {
    const length = Number(response.headers.get("content-length") ?? -1);
    let heldBack: Uint8Array | undefined;
    let isCancelled = false;
    let afterDisconnect: ReturnType<typeof setTimeout> | undefined;
    const capturing = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      const send = (chunk: Uint8Array): void => {
        if (isCancelled) return;
        // A client takes the response for complete as soon as it has this chunk.
        if (fits && buffer.length === length && chunk.byteLength > 0) heldBack = chunk;
        else controller.enqueue(chunk);
      };
      try {
        for (const chunk of chunks.splice(0, chunks.length - 1)) controller.enqueue(chunk);
        for (const chunk of chunks) send(chunk);
        while (fits) {
          const { done, value } = await read;
          if (done) {
            await buffer.complete(head);
            if (isCancelled) return;
            if (heldBack) controller.enqueue(heldBack);
            controller.close();
            return;
          }
          fits = buffer.add(value);
          if (!fits && heldBack) controller.enqueue(heldBack);
          send(value);
          if (fits) read = reader.read();
        }
        void buffer.complete({ ...head, missing: "too-long" });
        if (isCancelled) await reader.cancel();
      } catch (error) {
        void buffer.complete({ ...head, missing: "failed", error });
        if (!isCancelled) controller.error(error);
      } finally {
        clearTimeout(afterDisconnect);
      }
    };
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => void capturing(controller),
        async pull(controller) {
          if (fits) return;
          const { done, value } = await reader.read();
          if (done) controller.close();
          else controller.enqueue(value);
        },
        // The client has disconnected: the handler's response is read to its end.
        cancel(reason) {
          isCancelled = true;
          if (!fits) return reader.cancel(reason);
          afterDisconnect = setTimeout(() => {
            void buffer.complete({ ...head, missing: "aborted" });
            reader.cancel(reason).catch(() => {});
          }, MAX_AFTER_DISCONNECT_MS);
        },
      },
      { highWaterMark: 0 },
    );
  }
}

function plainHeaders(headers: Headers): Record<string, string | string[]> {
  const plain: Record<string, string | string[]> = {};
  headers.forEach((value, name) => {
    if (name === "set-cookie") plain[name] = [...(plain[name] ?? []), value];
    else plain[name] = value;
  });
  return plain;
}
