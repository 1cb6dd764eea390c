/** How many holds a bucket may have. */

/** The largest `maxHolds` of a policy. */
export const MAX_HOLDS = 1000;
/** Holds of one bucket, unless its policy has another maximum. */
const DEFAULT_MAX_HOLDS: number = Math.min(200, MAX_HOLDS);

/** The maximum number of holds of a bucket whose policy has none. A concurrency limit has room for holds of 1 each. */
export function defaultMaxHolds(limit: number, holdsOnly: boolean | undefined): number {
  return holdsOnly ? Math.max(DEFAULT_MAX_HOLDS, Math.min(limit, MAX_HOLDS)) : DEFAULT_MAX_HOLDS;
}
