/**
 * Jobs that are given in one tick share a call, and in a cluster a call for each slot: calls go out together, each on
 * the connection of its node, and nobody waits for another's reply. All stores on one client share its batches.
 */
import { optionError } from "../../core/errors.ts";
import { encode, type Job, resolveJobs, weightOf } from "./job.ts";
import type { Connection } from "./redis-client.ts";
import { script, sha } from "./script.ts";

/** How often a client that is connecting is looked at. */
const POLL_MS = 5;
/** How long jobs wait for a client that is connecting, when their callers set no time. */
const PATIENCE_MS = 5000;

const { setImmediate } = globalThis as { setImmediate?: (run: () => void) => unknown };
/** After all that arrives in this turn of the event loop, where the runtime can tell. */
const afterThisTurn: (run: () => void) => unknown = setImmediate ?? ((run) => setTimeout(run, 0));

/** The one queue of a client. */
export class Batches {
  private readonly connection: Connection;
  private queue: Job[] = [];
  /** Calls that wait for their reply. */
  private underWay = 0;

  constructor(connection: Connection) {
    this.connection = connection;
  }

  add(job: Job): void {
    if (this.queue.push(job) > 1) return;
    // Who comes alone goes at once. While others are under way there is a crowd, and more will come in this turn.
    const soon = this.underWay > 0 && this.connection.sharesTurns ? afterThisTurn : queueMicrotask;
    soon(() => this.flush(PATIENCE_MS));
  }

  private flush(patienceMs: number): void {
    // What nobody waits for is not sent: it would be charged for an answer that was given without it.
    const jobs = this.queue.filter((job) => !job.waiting?.abandoned);
    this.queue = [];
    if (jobs.length === 0) return;
    const readiness = this.readiness();
    if (readiness === "ready") {
      this.send(jobs);
    } else if (readiness === "connecting" && patienceMs > 0) {
      this.queue = jobs;
      const timer: unknown = setTimeout(() => this.flush(patienceMs - POLL_MS), POLL_MS);
      // What connects holds the process open by itself, if it should be.
      (timer as { unref?(): void }).unref?.();
    } else {
      const expected = "a connected client (with node-redis, call await client.connect() first)";
      const error = optionError("store-unavailable", "client", expected, readiness);
      for (const job of jobs) job.reject(error);
    }
  }

  private readiness(): string {
    try {
      return this.connection.readiness();
    } catch (error) {
      return String(error);
    }
  }

  private send(jobs: readonly Job[]): void {
    const bySlot = new Map<number, Job[]>();
    for (const job of jobs) {
      const same = bySlot.get(job.slot);
      if (same) same.push(job);
      else bySlot.set(job.slot, [job]);
    }
    for (const same of bySlot.values()) this.sendInOrder(same);
  }

  /** One call after the other on one connection, so that the order per key is kept. */
  private sendInOrder(jobs: readonly Job[]): void {
    let [start, total] = [0, 0];
    for (let end = 0; end < jobs.length; end++) {
      const weight = weightOf(jobs[end] as Job);
      if (total > 0 && total + weight > this.connection.mostKeys) {
        void this.call(jobs.slice(start, end));
        [start, total] = [end, 0];
      }
      total += weight;
    }
    void this.call(start === 0 ? jobs : jobs.slice(start));
  }

  /** Sends again, once, only what the server says it has not run. A lost reply may have been charged. */
  private async call(jobs: readonly Job[], mayRepeat = true): Promise<void> {
    const repeated: Job[] = [];
    const fail = (job: Job, error: Error): void => {
      // A server that has become a replica: the client may know the new master by the next call.
      if (mayRepeat && !job.waiting?.abandoned && says(error, "READONLY")) repeated.push(job);
      else job.reject(error);
    };
    try {
      for (const [job, error] of resolveJobs(jobs, await this.run(jobs))) fail(job, error);
    } catch (error) {
      for (const job of jobs) fail(job, error as Error);
    }
    if (repeated.length > 0) await this.call(repeated, false);
  }

  /** By the script's hash, and by its text where the server does not know that. */
  private async run(jobs: readonly Job[]): Promise<unknown> {
    const { keys, args } = encode(jobs);
    this.underWay++;
    try {
      return await this.connection.evalsha(sha, keys, args);
    } catch (error) {
      if (!says(error, "NOSCRIPT") || jobs.every((job) => job.waiting?.abandoned)) throw error;
      return await this.connection.eval(script, keys, args);
    } finally {
      this.underWay--;
    }
  }
}

/** Whether an error is of this kind. Upstash puts the whole command into the message, with keys of any name. */
function says(error: unknown, kind: string): boolean {
  const message = String((error as Error | undefined)?.message ?? error);
  return message.replace(/^Command (?:\d+ \[ \w+ \] )?failed: /, "").startsWith(kind);
}
