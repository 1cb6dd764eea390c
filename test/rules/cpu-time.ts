/** The time that a call takes, for limits that other processes on the machine must not affect. */

/** CPU time of the best of three calls in ms, or of the first one that stays below `enough`. */
export function cpuTimeOf(call: () => void, enough = 0): number {
  let least = Number.POSITIVE_INFINITY;
  for (let run = 0; run < 3 && least > enough; run++) {
    const start = process.cpuUsage();
    call();
    const { user, system } = process.cpuUsage(start);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}
