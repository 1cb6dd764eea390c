/**
 * Leaky bucket: a queue that drains at a steady rate. It admits what a token bucket admits, but says
 * how long each request has to wait for those before it.
 */
import { Algorithm } from "./algorithm.ts";
import { bucketWay } from "./token-bucket.ts";

/** Cells: the instant at which the queue is empty, in whole milliseconds and the rest in 1/p. */
export const leakyBucket: Algorithm = new Algorithm({ ...bucketWay, name: "leaky-bucket", queues: true });
