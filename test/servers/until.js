/** Polls until a condition holds. */
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Polls until `pendingReason` resolves with undefined. An error counts as a reason, because a server that starts or fails over
 * refuses connections. After the timeout, throws with `failure` and the last reason.
 * @param {string} failure start of the error message, such as "the cluster did not settle"
 * @param {() => Promise<string | undefined>} pendingReason
 */
export async function until(failure, pendingReason, timeoutMs = 30_000) {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const reason = await pendingReason().catch((error) => String(error?.message ?? error));
    if (reason === undefined) return;
    if (performance.now() > deadline) throw new Error(`${failure} within ${timeoutMs / 1000} s: ${reason}`);
    await sleep(20);
  }
}
