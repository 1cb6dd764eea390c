/** Prints a line at intervals while a long job runs, so that a CI log shows what it waits for. */

/** Shorter than the 15 seconds after which a silent job looks stuck. */
const INTERVAL_MS = 12_000;

/** Prints what `nameOf` returns and for how long it has been running. Returns a function that stops it. */
export function startHeartbeat(/** @type {() => string} */ nameOf, print = console.log, intervalMs = INTERVAL_MS) {
  const start = performance.now();
  const timer = setInterval(() => {
    print(`… still running: ${nameOf()}, ${Math.round((performance.now() - start) / 1000)} s`);
  }, intervalMs);
  timer.unref();
  return () => clearInterval(timer);
}
