/** What sockets of all servers have in common. */

/** The `readyState` of a socket on its way, and of one that is open. */
export const CONNECTING = 0;
export const OPEN = 1;

/** How much of a frame a server may read before the guard sees it: what is larger is closed without being read to its end. */
export function mostReadOf(maxBytes: number): number {
  return 4 * maxBytes;
}
