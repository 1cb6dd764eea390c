/**
 * Batches jobs: those of one tick share a script call, and on a cluster one call per slot. Calls are pipelined, each on the
 * connection of its node. All stores on one client share its batches.
 */
import { type Job, jobWeight } from "./job.ts";
import type { Connection } from "./redis-client.ts";
import { script, sha } from "./script.ts";
import { encodeJobs } from "./script-arguments.ts";
import { isReplyError, MAX_CONNECT_WAIT_MS, notConnected, POLL_MS, readinessOf, unref } from "./script-call.ts";
import { resolveJobs } from "./script-reply.ts";

const { setImmediate } = globalThis as { setImmediate?: (run: () => void) => unknown };
/** Runs after the current turn of the event loop. */
const afterThisTurn: (run: () => void) => unknown = setImmediate ?? ((run) => setTimeout(run, 0));

/** The queue of one client. */
export class Batches {
  private readonly connection: Connection;
  private queue: Job[] = [];
  /** Number of calls in flight. */
  private inFlight = 0;

  constructor(connection: Connection) {
    this.connection = connection;
  }

  add(job: Job): void {
    if (this.queue.push(job) > 1) return;
    // Send a lone call in a microtask. While calls are in flight, wait for `setImmediate` to batch more.
    const schedule = this.inFlight > 0 && this.connection.batchesAcrossRequests ? afterThisTurn : queueMicrotask;
    schedule(() => this.flush(MAX_CONNECT_WAIT_MS));
  }

  private flush(waitMs: number): void {
    // Drop abandoned calls: the fallback has decided, and Redis would charge them again.
    const jobs = this.queue.filter((job) => !job.callState?.abandoned);
    this.queue = [];
    if (jobs.length === 0) return;
    const readiness = readinessOf(this.connection);
    if (readiness === "ready") {
      this.send(jobs);
    } else if (readiness === "connecting" && waitMs > 0) {
      this.queue = jobs;
      // The connecting client decides whether the process stays alive.
      unref(setTimeout(() => this.flush(waitMs - POLL_MS), POLL_MS));
    } else {
      const error = notConnected(readiness);
      for (const job of jobs) job.reject(error);
    }
  }

  private send(jobs: readonly Job[]): void {
    const bySlot = new Map<number, Job[]>();
    for (const job of jobs) {
      const sameSlot = bySlot.get(job.slot);
      if (sameSlot) sameSlot.push(job);
      else bySlot.set(job.slot, [job]);
    }
    for (const sameSlot of bySlot.values()) this.sendInOrder(sameSlot);
  }

  /** Splits jobs into calls on one connection, which keeps the order per key. */
  private sendInOrder(jobs: readonly Job[]): void {
    let [start, total] = [0, 0];
    for (let end = 0; end < jobs.length; end++) {
      const weight = jobWeight(jobs[end] as Job);
      if (total > 0 && total + weight > this.connection.maxKeysPerCall) {
        void this.call(jobs.slice(start, end));
        [start, total] = [end, 0];
      }
      total += weight;
    }
    void this.call(start === 0 ? jobs : jobs.slice(start));
  }

  /** Runs jobs. Retries once, and only those that the server has rejected unrun: after a lost reply they may be charged. */
  private async call(jobs: readonly Job[], mayRetry = true): Promise<void> {
    const retried: Job[] = [];
    const fail = (job: Job, error: Error): void => {
      // The server has become a replica. The client may have found the new master by the next call.
      if (mayRetry && !job.callState?.abandoned && isReplyError(error, "READONLY")) retried.push(job);
      else job.reject(error);
    };
    try {
      for (const [job, error] of resolveJobs(jobs, await this.run(jobs))) fail(job, error);
    } catch (error) {
      for (const job of jobs) fail(job, error as Error);
    }
    if (retried.length > 0) await this.call(retried, false);
  }

  /** Runs the script by its hash, and by its text if the server does not have it. */
  private async run(jobs: readonly Job[]): Promise<unknown> {
    const { keys, args } = encodeJobs(jobs);
    this.inFlight++;
    try {
      return await this.connection.evalsha(sha, keys, args);
    } catch (error) {
      if (!isReplyError(error, "NOSCRIPT") || jobs.every((job) => job.callState?.abandoned)) throw error;
      return await this.connection.eval(script, keys, args);
    } finally {
      this.inFlight--;
    }
  }
}
