/** Encodes jobs as KEYS and ARGV of the script. step.lua documents the format. */
import type { Job, Step } from "./job.ts";

/** Encodes jobs. Consecutive jobs that differ only in their keys share one description. */
export function encodeJobs(jobs: readonly Job[]): { keys: string[]; args: string[] } {
  const keys: string[] = [];
  const args: string[] = [];
  for (let j = 0; j < jobs.length; ) {
    const first = jobs[j] as Job;
    const start = j;
    // The first job always: NaN would not equal itself.
    do {
      for (const { storedKey } of (jobs[j] as Job).steps) keys.push(storedKey);
      j++;
    } while (j < jobs.length && hasSameShape(first, jobs[j] as Job));
    args.push(`${j - start} ${first.steps.length}`);
    for (const step of first.steps) args.push(encodeStep(step));
  }
  return { keys, args };
}

function hasSameShape(a: Job, b: Job): boolean {
  return (
    a.steps.length === b.steps.length &&
    a.steps.every((step, i) => {
      const { policy, mode, cost, ttlMs, grantEndsAt, hold } = b.steps[i] as Step;
      return (
        step.policy === policy &&
        step.mode === mode &&
        step.cost === cost &&
        step.ttlMs === ttlMs &&
        step.grantEndsAt === grantEndsAt &&
        step.hold === hold
      );
    })
  );
}

function encodeStep({ policy, mode, cost, ttlMs, grantEndsAt, hold }: Step): string {
  const { algorithm, limit, windowMs, unitsPerToken, unitsPerMs, maxHolds, block } = policy;
  let text = `${algorithm.name} ${mode} ${cost} ${limit} ${windowMs} ${unitsPerToken} ${unitsPerMs} ${ttlMs}`;
  if (grantEndsAt !== undefined) text += ` grant=${grantEndsAt}`;
  if (hold !== undefined) text += ` hold=${hold.id},${hold.forMs},${maxHolds}`;
  return block === undefined ? text : `${text} block=${block.durationsMs.join()}`;
}
