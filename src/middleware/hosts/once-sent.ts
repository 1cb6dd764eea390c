/** Finds out when the body of a `Response` has been sent, for requests whose cost is held until then. */
import type { MaybePromise } from "../../base/maybe-promise.ts";
import type { OnFinish } from "../gate/gate-result.ts";
import type { RequestOutcome } from "../gate/options.ts";
import type { FetchConnection } from "./fetch-connection.ts";

/** Calls `onFinish` when the body has been sent, or the client disconnects first. Returns the response to send. */
export function onceSent(
  response: Response,
  outcome: RequestOutcome,
  onFinish: OnFinish,
  connection: FetchConnection | undefined,
): MaybePromise<Response> {
  const aborted = { ...outcome, status: undefined, aborted: true };
  if (connection) {
    connection.onClose(() => void onFinish(connection.isComplete() ? outcome : aborted, "returned"));
    return response;
  }
  const { body } = response;
  // Awaited, because a Worker may be stopped after it has responded.
  if (body === null || response.status === 101) return onFinish(outcome).then(() => response);
  const reader = body.getReader();
  const watched = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (!done) {
            controller.enqueue(value);
            return;
          }
          // Awaited, as above.
          await onFinish(outcome);
          controller.close();
        } catch (error) {
          await onFinish({ ...outcome, error });
          controller.error(error);
        }
      },
      async cancel(reason) {
        try {
          // First, because the handler's stream may report the actual cost when it is cancelled.
          await reader.cancel(reason);
        } finally {
          await onFinish(aborted, "returned");
        }
      },
    },
    { highWaterMark: 0 },
  );
  discarded?.register(watched, () => void onFinish(outcome));
  return new Response(watched, response);
}

/**
 * Finishes requests whose response is never read, because a middleware around this one has sent another in its place. A
 * body that was garbage-collected can't be read any more.
 */
const discarded =
  typeof FinalizationRegistry === "function"
    ? /* @__PURE__ */ new FinalizationRegistry<() => void>((finish) => finish())
    : undefined;
