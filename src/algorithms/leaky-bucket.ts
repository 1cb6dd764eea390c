/**
 * Leaky bucket: a queue that drains at a steady rate. It admits what a token bucket admits, but says
 * how long each request has to wait for those before it.
 */
import type { Algorithm } from "./algorithm.ts";
import { tokenBucket } from "./token-bucket.ts";

/** Cells: the instant at which the queue is empty, in whole milliseconds and the rest in 1/p. */
export const leakyBucket: Algorithm = { ...tokenBucket, name: "leaky-bucket", queues: true };
