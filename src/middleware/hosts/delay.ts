/** Delays requests and calls. */

/** Waits; returns false if the client disconnects first. */
export function delay(signal: AbortSignal | undefined, delayMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = (): void => {
      clearTimeout(timer);
      resolve(false);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", cancel);
      resolve(true);
    }, delayMs);
    if (signal?.aborted) cancel();
    else signal?.addEventListener("abort", cancel, { once: true });
  });
}
