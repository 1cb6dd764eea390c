/** Waits by asking again, and says at the end what was still missing. */
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Asks until there is nothing missing. An error that `missing` throws counts as what is missing, because a server that
 * is just starting or failing over refuses connections.
 * @param {string} what the beginning of the error: "the cluster did not settle"
 * @param {() => Promise<string | undefined>} missing
 */
export async function until(what, missing, timeoutMs = 30_000) {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const reason = await missing().catch((error) => String(error?.message ?? error));
    if (reason === undefined) return;
    if (performance.now() > deadline) throw new Error(`${what} within ${timeoutMs / 1000} s: ${reason}`);
    await sleep(20);
  }
}
