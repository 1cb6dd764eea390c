/** A group of charges on its way to Redis and back: what the script is told of it, and how its reply is read. */
import type { Cells } from "../../algorithms/algorithm.ts";
import { algorithms } from "../../algorithms/algorithms.ts";
import { report } from "../../algorithms/step.ts";
import type { Charge, Mode } from "../../core/charge.ts";
import type { CompiledPolicy } from "../../core/compile.ts";
import type { Decision } from "../../core/decision.ts";
import { optionError } from "../../core/errors.ts";
import { recordGrant } from "../../core/grant.ts";
import type { CallState } from "../../core/store.ts";

/** What can be done to a bucket: what a charge can, and what people do by hand. */
export type Action = Mode | "reset" | "inspect";

/** One charge and the key of its bucket. */
export interface Step extends Omit<Charge, "mode"> {
  readonly mode: Action;
  readonly storedKey: string;
  /** The shortest time that a value is kept. */
  readonly ttlMs: number;
}

/** What `inspect` was told last: the value as it is stored, and its time to live. */
export interface Stored {
  readonly raw: string;
  readonly ttlMs: number;
}

/** A group that waits for its answers. */
export interface Job {
  readonly steps: readonly Step[];
  /** The cluster slot of all its keys; 0 where there are none. */
  readonly slot: number;
  readonly waiting: CallState | undefined;
  resolve(decisions: Decision[], stored: Stored): void;
  reject(error: unknown): void;
}

/** A step on a log takes Redis about as long as this many on a token bucket, whatever its limit. */
const LOG_WEIGHT = 4;
/** A refund of one grant may rewrite half of a log, which is as much as one call should do. */
const LOG_REFUND_WEIGHT = 32;

/** The server time of a job, in steps on a token bucket. */
export function weightOf({ steps }: Job): number {
  let weight = 0;
  for (const { policy, grantEndsAt } of steps) {
    if (policy.algorithm !== "sliding-log") weight += 1;
    else weight += grantEndsAt === undefined ? LOG_WEIGHT : LOG_REFUND_WEIGHT;
  }
  return weight;
}

/** What the script is told of some jobs: those in a row that differ in their keys only are told once. */
export function encode(jobs: readonly Job[]): { keys: string[]; args: string[] } {
  const keys: string[] = [];
  const args: string[] = [];
  for (let j = 0; j < jobs.length; ) {
    const first = jobs[j] as Job;
    const start = j;
    while (j < jobs.length && sameShape(first, jobs[j] as Job)) {
      for (const { storedKey } of (jobs[j] as Job).steps) keys.push(storedKey);
      j++;
    }
    args.push(`${j - start} ${first.steps.length}`);
    for (const step of first.steps) args.push(shapeOf(step));
  }
  return { keys, args };
}

function sameShape(a: Job, b: Job): boolean {
  return (
    a.steps.length === b.steps.length &&
    a.steps.every((step, i) => {
      const { policy, mode, cost, ttlMs, grantEndsAt } = b.steps[i] as Step;
      return (
        step.policy === policy &&
        step.mode === mode &&
        step.cost === cost &&
        step.ttlMs === ttlMs &&
        step.grantEndsAt === grantEndsAt
      );
    })
  );
}

function shapeOf({ policy, mode, cost, ttlMs, grantEndsAt }: Step): string {
  const { algorithm, limit, windowMs, unitsPerToken, unitsPerMs } = policy;
  const shape = `${algorithm} ${mode} ${cost} ${limit} ${windowMs} ${unitsPerToken} ${unitsPerMs} ${ttlMs}`;
  return grantEndsAt === undefined ? shape : `${shape} ${grantEndsAt}`;
}

/**
 * Reads the reply to some jobs, and gives those of them back that failed, with the reason: what ails one bucket is the
 * error of its own caller.
 */
export function resolveJobs(jobs: readonly Job[], reply: unknown): [Job, Error][] {
  const failed: [Job, Error][] = [];
  const items = Array.isArray(reply) ? reply : [];
  // The last item is the server's time.
  const now = Number(items.at(-1));
  const cursor: Cursor = { items, at: 0, fault: undefined, raw: "", ttlMs: 0 };
  for (const job of jobs) {
    const { steps } = job;
    const start = cursor.at;
    cursor.fault = undefined;
    let decisions = steps.map((step) => readDecision(cursor, step, steps.length === 1));
    // A group has taken what it asked for if every part was allowed, which only its end tells.
    if (steps.length > 1 && cursor.fault === undefined && decisions.every((decision) => decision?.allowed)) {
      cursor.at = start;
      decisions = steps.map((step) => readDecision(cursor, step, true));
    }
    if (cursor.fault) {
      failed.push([job, cursor.fault]);
      continue;
    }
    steps.forEach(({ mode, cost }, i) => {
      const decision = decisions[i] as Decision;
      if (mode === "take" && decision.allowed) {
        recordGrant(decision, now + decision.resetAfterMs, cost);
      }
    });
    job.resolve(decisions as Decision[], cursor);
  }
  return failed;
}

/** How far a reply has been read, and what else it told. */
interface Cursor {
  readonly items: readonly unknown[];
  at: number;
  /** What ails a bucket of the group that is being read. */
  fault: Error | undefined;
  raw: string;
  ttlMs: number;
}

function readDecision(cursor: Cursor, step: Step, taken: boolean): Decision | undefined {
  const first = cursor.items[cursor.at++];
  const verdict = Number(first);
  if (first === undefined || Number.isNaN(verdict)) {
    // Another charge of the group is to blame, and says so itself.
    if (first !== "SKIPPED") cursor.fault = faultOf(step, first);
    return undefined;
  }
  const { policy, cost, mode } = step;
  const allowed = verdict >= 0;
  const decision = readers[policy.algorithm](
    cursor,
    policy,
    allowed ? verdict : -1 - verdict,
    cost,
    allowed,
    taken && allowed && mode === "take" ? cost : 0,
  );
  if (mode === "inspect") {
    cursor.raw = String(cursor.items[cursor.at++]);
    cursor.ttlMs = next(cursor);
  }
  return decision;
}

function faultOf({ storedKey }: Step, text: unknown): Error {
  if (typeof text !== "string") return new Error("Redis gave a reply of another form");
  if (!/^(FOREIGN|WRONGTYPE)/.test(text)) return new Error(text);
  return optionError("foreign-value", storedKey, "a bucket of sluice at this key of Redis");
}

type Reader = (
  cursor: Cursor,
  policy: CompiledPolicy,
  used: number,
  cost: number,
  allowed: boolean,
  taken: number,
) => Decision;

/** What each algorithm replies besides what is in use, turned into the state that the figures are made from. */
const readers: Readonly<Record<CompiledPolicy["algorithm"], Reader>> = {
  "token-bucket": readBucket,
  "leaky-bucket": readBucket,

  "fixed-window"(cursor, policy, used, cost, allowed, taken) {
    const left = next(cursor);
    return figures(policy, 0, used, 0, policy.windowMs - left, cost, allowed, taken);
  },

  "sliding-window"(cursor, policy, _used, cost, allowed, taken) {
    const [previous, current, left] = [next(cursor), next(cursor), next(cursor)];
    return figures(policy, 0, previous, current, policy.windowMs - left, cost, allowed, taken);
  },

  // A log may be long and stays where it is: its figures come ready.
  "sliding-log"(cursor, { name: policy, limit }, used, cost, allowed) {
    const [resetAfterMs, nextAfterMs, retryAfterMs] = [next(cursor), next(cursor), next(cursor)];
    const remaining = Math.max(0, limit - used);
    if (allowed) return { allowed, policy, limit, remaining, resetAfterMs, nextAfterMs };
    return {
      allowed,
      policy,
      limit,
      remaining,
      resetAfterMs,
      nextAfterMs,
      retryAfterMs: cost > limit ? null : retryAfterMs,
    };
  },
};

function readBucket(
  _cursor: Cursor,
  policy: CompiledPolicy,
  used: number,
  cost: number,
  allowed: boolean,
  taken: number,
): Decision {
  const whole = Math.floor(used / policy.unitsPerMs);
  return figures(policy, whole, used - whole * policy.unitsPerMs, policy.unitsPerMs, 0, cost, allowed, taken);
}

function next(cursor: Cursor): number {
  return Number(cursor.items[cursor.at++]);
}

const cells: Cells = new Float64Array(3);

function figures(
  policy: CompiledPolicy,
  a: number,
  b: number,
  c: number,
  now: number,
  cost: number,
  allowed: boolean,
  taken: number,
): Decision {
  cells[0] = a;
  cells[1] = b;
  cells[2] = c;
  return report({ algorithm: algorithms[policy.algorithm], cells, at: 0, policy }, cost, now, allowed, taken);
}
