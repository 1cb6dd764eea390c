/** Reads the script's reply, a list of numbers, texts and lists. step.lua documents the format. */

import { SluiceError, show } from "../../base/errors.ts";
import type { Cells } from "../../core/compiled-policy.ts";
import type { Decision } from "../../core/decision.ts";
import { recordGrant } from "../../core/grant.ts";
import { report } from "../../core/step.ts";
import type { Job, Step, StoredValue } from "./job.ts";
import { decisionFromState, denies, parseStateReply, type StateReply } from "./stored-state.ts";

/** The part of a reply about one step on a bucket without holds. */
interface PlainReply {
  /** Whether the cost fits, regardless of the other steps of its group. */
  readonly fits: boolean;
  /** Units in use after the step. */
  readonly usedUnits: number;
  /** Durations in ms, of algorithms that don't refill continuously. Those of the others follow from the units in use. */
  readonly durations: { resetAfterMs: number; nextAfterMs: number; retryAfterMs: number } | undefined;
}

/** The part of a reply about one step. */
type StepReply = (PlainReply | StateReply) & {
  /** The stored value, of `inspect` only. */
  readonly stored: StoredValue | undefined;
};

/** Version of the reply. It is checked because a proxy or another build may run another script. */
const REPLY_VERSION = 2;

/** Resolves jobs with their decisions, and returns those that failed: an error at one bucket fails only its own group. */
export function resolveJobs(jobs: readonly Job[], reply: unknown): [Job, Error][] {
  const failed: [Job, Error][] = [];
  const reader = new ReplyReader(Array.isArray(reply) ? reply : []);
  for (const job of jobs) {
    const single = reader.readSingle(job.steps);
    if (single) {
      resolveSingle(job, single, reader.now);
      continue;
    }
    const replies = reader.readGroup(job.steps);
    if (replies instanceof Error) failed.push([job, replies]);
    else resolveJob(job, replies, reader.now);
  }
  return failed;
}

function resolveJob({ steps, resolve }: Job, replies: readonly StepReply[], now: number): void {
  // A group takes its costs only if all of them fit.
  const isTaken = steps.every(({ mode, policy }, i) => {
    const reply = replies[i] as StepReply;
    return ("state" in reply ? reply.admitted : reply.fits) || !denies(mode, policy);
  });
  const decisions = steps.map((step, i) => {
    const { mode, cost } = step;
    const reply = replies[i] as StepReply;
    if ("state" in reply) return decisionFromState(step, reply, now);
    const takes = mode === "take" && isTaken;
    const decision = decisionFrom(step, reply, takes ? cost : 0);
    if (mode === "take" && decision.allowed) recordGrant(decision, now + decision.resetAfterMs, cost);
    return decision;
  });
  resolve(decisions, replies.at(-1)?.stored);
}

/** The common case without lists. */
function resolveSingle({ steps, resolve }: Job, reply: PlainReply & StepReply, now: number): void {
  const step = steps[0] as Step;
  const takes = step.mode === "take" && reply.fits;
  const decision = decisionFrom(step, reply, takes ? step.cost : 0);
  if (takes) recordGrant(decision, now + decision.resetAfterMs, step.cost);
  resolve([decision], reply.stored);
}

class ReplyReader {
  /** The server's time in milliseconds since the epoch. */
  readonly now: number;
  private readonly items: readonly unknown[];
  /** The first item is the version. */
  private position = 1;

  constructor(items: readonly unknown[]) {
    if (Number(items[0]) !== REPLY_VERSION) throw otherVersion(items[0]);
    this.items = items;
    this.now = Number(items.at(-1));
  }

  /** Reads the reply of a group of one step, unless it failed. */
  readSingle(steps: readonly Step[]): (PlainReply & StepReply) | undefined {
    if (steps.length !== 1 || typeof this.items[this.position] !== "number") return undefined;
    return this.readStep(steps[0] as Step);
  }

  /** Reads the replies of a group. A failed group has one text per step instead: the error, or `SKIPPED`. */
  readGroup(steps: readonly Step[]): StepReply[] | Error {
    let error: Error | undefined;
    const replies: StepReply[] = [];
    for (const step of steps) {
      const first = this.items[this.position];
      if (Array.isArray(first)) {
        const reply = this.readState(step, first);
        if (reply) replies.push(reply);
        else error = foreignValue(step);
      } else if (isNumeric(first)) replies.push(this.readStep(step));
      else {
        this.position++;
        if (first !== "SKIPPED") error = errorFrom(step, first);
      }
    }
    if (replies.length === steps.length) return replies;
    return error ?? unexpectedReply();
  }

  private readStep({ policy, mode }: Step): PlainReply & StepReply {
    // Units in use, or -1 minus that if the cost does not fit.
    const verdict = this.nextNumber();
    const fits = verdict >= 0;
    const durations = policy.refills
      ? undefined
      : { resetAfterMs: this.nextNumber(), nextAfterMs: this.nextNumber(), retryAfterMs: this.nextNumber() };
    const stored = mode === "inspect" ? this.readStored() : undefined;
    return { fits, usedUnits: fits ? verdict : -1 - verdict, durations, stored };
  }

  private readState({ policy, mode }: Step, list: readonly unknown[]): (StateReply & StepReply) | undefined {
    this.position++;
    const reply = parseStateReply(list, policy);
    const stored = mode === "inspect" ? this.readStored() : undefined;
    return reply && { ...reply, stored: stored && { ...stored, state: reply.state, now: this.now } };
  }

  private readStored(): StoredValue {
    return { raw: String(this.items[this.position++]), ttlMs: this.nextNumber() };
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

function errorFrom(step: Step, text: unknown): Error {
  if (typeof text !== "string") return unexpectedReply();
  return /^(FOREIGN|WRONGTYPE)/.test(text) ? foreignValue(step) : new Error(text);
}

function foreignValue({ storedKey }: Step): Error {
  const message =
    "The Redis key of this bucket holds a value that sluice did not write. Find out what writes to it, then call reset(key).";
  return new SluiceError("foreign-value", message, { option: storedKey, expected: "a value written by sluice" });
}

function otherVersion(received: unknown): SluiceError {
  const message = `The Redis script replied in format ${show(received)}, but this version of sluice reads ${REPLY_VERSION}. Run one version of sluice, without a proxy that changes replies.`;
  return new SluiceError("store-unavailable", message, {
    option: "store",
    expected: `format ${REPLY_VERSION}`,
    received,
  });
}

// Reused for every decision, to allocate less.
const cells: Cells = new Float64Array(3);

/** Makes the decision on a step that took `takenCost`. */
function decisionFrom(step: Step, { fits, usedUnits, durations }: PlainReply, takenCost: number): Decision {
  const { policy, cost } = step;
  const { name, limit, unitsPerMs, unitsPerToken, capacityUnits } = policy;
  if (durations) {
    const { resetAfterMs, nextAfterMs } = durations;
    const remaining = usedUnits < capacityUnits ? Math.floor((capacityUnits - usedUnits) / unitsPerToken) : 0;
    if (fits) return { allowed: true, policy: name, limit, remaining, resetAfterMs, nextAfterMs };
    const retryAfterMs = cost > limit ? null : durations.retryAfterMs;
    return { allowed: false, policy: name, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs };
  }
  // A bucket at time 0 with these units in use: only differences of times matter.
  const wholeMs = Math.floor(usedUnits / unitsPerMs);
  cells[0] = wholeMs;
  cells[1] = usedUnits - wholeMs * unitsPerMs;
  cells[2] = unitsPerMs;
  return report({ algorithm: policy.algorithm, cells, at: 0, policy }, cost, 0, fits, takenCost);
}
