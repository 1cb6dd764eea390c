/** Reads the script's reply, a flat list of numbers and texts. step.lua documents the format. */
import type { Cells } from "../../algorithms/algorithm.ts";
import { algorithms } from "../../algorithms/algorithms.ts";
import { report } from "../../algorithms/step.ts";
import type { CompiledPolicy } from "../../core/compile.ts";
import type { Decision } from "../../core/decision.ts";
import { SluiceError } from "../../core/errors.ts";
import { recordGrant } from "../../core/grant.ts";
import type { AlgorithmName } from "../../core/policy.ts";
import type { Job, Step, StoredValue } from "./job.ts";

/** The part of a reply about one step. */
interface StepReply {
  /** Whether the cost fits, regardless of the other steps of its group. */
  readonly fits: boolean;
  /** Units in use after the step. */
  readonly usedUnits: number;
  /** The numbers that the algorithm's `reply` function in Lua adds; `decisionFrom` names them. */
  readonly fields: readonly number[];
  /** The stored value, of `inspect` only. */
  readonly stored: StoredValue | undefined;
}

/** How many numbers the `reply` function of each algorithm adds. */
const FIELD_COUNT: Readonly<Record<AlgorithmName, number>> = {
  "token-bucket": 0,
  "leaky-bucket": 0,
  "fixed-window": 1,
  "sliding-window": 3,
  "sliding-log": 3,
};

/** Resolves jobs with their decisions, and returns those that failed: an error at one bucket fails only its own group. */
export function resolveJobs(jobs: readonly Job[], reply: unknown): [Job, Error][] {
  const failed: [Job, Error][] = [];
  const reader = new ReplyReader(Array.isArray(reply) ? reply : []);
  for (const job of jobs) {
    const replies = reader.readGroup(job.steps);
    if (replies instanceof Error) failed.push([job, replies]);
    else resolveJob(job, replies, reader.now);
  }
  return failed;
}

function resolveJob({ steps, resolve }: Job, replies: readonly StepReply[], now: number): void {
  // A group takes its costs only if all of them fit.
  const isTaken = replies.every(({ fits }) => fits);
  const decisions = steps.map((step, i) => {
    const { mode, cost } = step;
    const takes = mode === "take" && isTaken;
    const decision = decisionFrom(step, replies[i] as StepReply, takes ? cost : 0);
    if (mode === "take" && decision.allowed) recordGrant(decision, now + decision.resetAfterMs, cost);
    return decision;
  });
  resolve(decisions, replies.at(-1)?.stored);
}

class ReplyReader {
  /** The server's time in milliseconds since the epoch. */
  readonly now: number;
  private readonly items: readonly unknown[];
  private position = 0;

  constructor(items: readonly unknown[]) {
    this.items = items;
    this.now = Number(items.at(-1));
  }

  /** Reads the replies of a group. A failed group has one text per step instead: the error, or `SKIPPED`. */
  readGroup(steps: readonly Step[]): StepReply[] | Error {
    let error: Error | undefined;
    const replies: StepReply[] = [];
    for (const step of steps) {
      const first = this.items[this.position];
      if (isNumeric(first)) replies.push(this.readStep(step));
      else {
        this.position++;
        if (first !== "SKIPPED") error = errorFrom(step, first);
      }
    }
    if (replies.length === steps.length) return replies;
    return error ?? unexpectedReply();
  }

  private readStep({ policy, mode }: Step): StepReply {
    // Units in use, or -1 minus that if the cost does not fit.
    const verdict = this.nextNumber();
    const fits = verdict >= 0;
    const fields: number[] = [];
    for (let i = FIELD_COUNT[policy.algorithm]; i > 0; i--) fields.push(this.nextNumber());
    const stored =
      mode === "inspect" ? { raw: String(this.items[this.position++]), ttlMs: this.nextNumber() } : undefined;
    return { fits, usedUnits: fits ? verdict : -1 - verdict, fields, stored };
  }

  private nextNumber(): number {
    return Number(this.items[this.position++]);
  }
}

function isNumeric(item: unknown): boolean {
  return item !== undefined && !Number.isNaN(Number(item));
}

function unexpectedReply(): Error {
  return new Error("Redis returned a reply that is too short or has an unknown format.");
}

function errorFrom({ storedKey }: Step, text: unknown): Error {
  if (typeof text !== "string") return unexpectedReply();
  if (!/^(FOREIGN|WRONGTYPE)/.test(text)) return new Error(text);
  const message =
    "The Redis key of this bucket holds a value that sluice did not write. Find out what writes to it, then call reset(key).";
  return new SluiceError("foreign-value", message, { option: storedKey, expected: "a value written by sluice" });
}

/** Makes the decision on a step that took `takenCost`. */
function decisionFrom(step: Step, { fits, usedUnits, fields }: StepReply, takenCost: number): Decision {
  const { policy, cost } = step;
  const { windowMs, unitsPerMs } = policy;
  const outcome = { cost, allowed: fits, takenCost };
  switch (policy.algorithm) {
    case "token-bucket":
    case "leaky-bucket": {
      const wholeMs = Math.floor(usedUnits / unitsPerMs);
      return decisionAt(policy, [wholeMs, usedUnits - wholeMs * unitsPerMs, unitsPerMs], 0, outcome);
    }
    case "fixed-window": {
      const [windowEndsInMs = 0] = fields;
      return decisionAt(policy, [0, usedUnits, 0], windowMs - windowEndsInMs, outcome);
    }
    case "sliding-window": {
      const [previousCount = 0, currentCount = 0, windowEndsInMs = 0] = fields;
      return decisionAt(policy, [0, previousCount, currentCount], windowMs - windowEndsInMs, outcome);
    }
    case "sliding-log":
      return logDecision(policy, usedUnits, fields, outcome);
  }
}

interface StepOutcome {
  readonly cost: number;
  readonly allowed: boolean;
  readonly takenCost: number;
}

// Reused for every decision, to allocate less.
const cells: Cells = new Float64Array(3);

/**
 * Makes a decision from a state. The state and `now` are relative to the start of the window, or to the present of a
 * bucket: only their differences matter.
 */
function decisionAt(
  policy: CompiledPolicy,
  state: readonly [number, number, number],
  now: number,
  { cost, allowed, takenCost }: StepOutcome,
): Decision {
  [cells[0], cells[1], cells[2]] = state;
  return report(algorithms[policy.algorithm], cells, 0, policy, cost, now, allowed, takenCost);
}

/** A log stays in Redis because it may be long, so the script replies the durations themselves. */
function logDecision(
  { name: policy, limit }: CompiledPolicy,
  used: number,
  [resetAfterMs = 0, nextAfterMs = 0, retryMs = 0]: readonly number[],
  { cost, allowed }: StepOutcome,
): Decision {
  const remaining = Math.max(0, limit - used);
  if (allowed) return { allowed, policy, limit, remaining, resetAfterMs, nextAfterMs };
  const retryAfterMs = cost > limit ? null : retryMs;
  return { allowed, policy, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs };
}
