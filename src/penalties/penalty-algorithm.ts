/**
 * Penalty: counts strikes, and blocks a key for longer with each of them. One strike is forgotten per `windowMs`, but not
 * during a block: otherwise blocks that are longer than that would never grow.
 *
 * While the key is not blocked, the limit is out of reach, so a penalty is never the limiting part of a combination.
 * While it is blocked, all of it is in use.
 */

import { checkWhole } from "../base/options.ts";
import { durationText, parseDuration } from "../base/rate.ts";
import type { Algorithm, Cells, CompiledPolicy, PenaltyNumbers, PolicyForm } from "../core/compiled-policy.ts";
import type { PenaltyPolicy } from "../core/policy.ts";
import { peek } from "../core/step.ts";

const DEFAULT_MAX_BLOCK_MS = 3_600_000;
const MAX_BLOCK_MS = 2 ** 51;
/** A thousand strikes are forgotten before the last instant that a clock may return. */
const MAX_FORGET_MS = 2 ** 40;
/** The largest cost: a key that is not blocked never reaches it. */
const NO_LIMIT = 2 ** 31 - 1;

const form: PolicyForm = {
  options: ["strikes", "blockMs", "factor", "maxBlockMs", "forgetMs"],
  word: "penalty",
  compile(policy) {
    const { strikes = 1, blockMs, factor = 2, maxBlockMs, forgetMs } = policy as PenaltyPolicy;
    const first = checkWhole("blockMs", parseDuration("blockMs", blockMs), 1, MAX_BLOCK_MS);
    const defaultMax = Math.max(first, DEFAULT_MAX_BLOCK_MS);
    const longest = checkWhole(
      "maxBlockMs",
      parseDuration("maxBlockMs", maxBlockMs ?? defaultMax),
      first,
      MAX_BLOCK_MS,
    );
    checkWhole("strikes", strikes, 1, 1000);
    checkWhole("factor", factor, 1, 1000);
    const windowMs = checkWhole("forgetMs", parseDuration("forgetMs", forgetMs ?? longest), 1, MAX_FORGET_MS);
    const durationsMs = [...new Array<number>(strikes - 1).fill(0), first];
    for (let next = first; factor > 1 && next < longest; ) {
      next = Math.min(longest, next * factor);
      durationsMs.push(next);
    }
    const block = { strikes, factor, firstMs: first, maxMs: longest, durationsMs: Object.freeze(durationsMs) };
    return { limit: NO_LIMIT, windowMs, unitsPerToken: 1, unitsPerMs: 0, block };
  },
  text({ windowMs, block }) {
    const { strikes, factor, firstMs, maxMs } = block as PenaltyNumbers;
    const blocks = `${durationText(firstMs)}x${factor} to ${durationText(maxMs)}`;
    return `${strikes} strikes ${blocks}/${durationText(windowMs)} penalty`;
  },
  shortText({ windowMs, block }) {
    const { strikes, factor, firstMs, maxMs } = block as PenaltyNumbers;
    return `${strikes}x${durationText(firstMs)}x${factor}-${durationText(maxMs)}/${durationText(windowMs)}`;
  },
  timeText: ({ windowMs }) => durationText(windowMs),
  fromText: () => undefined,
  fromNumbers({ windowMs, block }) {
    const { strikes, factor, firstMs, maxMs } = block as PenaltyNumbers;
    const blocks = { strikes, blockMs: firstMs, factor, maxBlockMs: maxMs };
    return { algorithm: "penalty", ...blocks, forgetMs: windowMs };
  },
};

/** Cells: when it was written, until when the key is blocked, and when its last strike is forgotten. */
export const penalty: Algorithm & { readonly name: "penalty" } = {
  name: "penalty",
  form,
  width: 3,
  consume: (_policy, cost) => ({ mode: "penalty", cost: Math.min(cost, 1) }),

  /** Strikes. Reports the state after them: a strike may be what blocks the key. */
  take(cells, at, policy, cost, now) {
    const bucket = { algorithm: penalty, cells, at, policy };
    const { blockMs } = viewAt(cells, at, now);
    if (blockMs === 0 && cost > 0) penalty.add(cells, at, policy, now, 0, cost);
    else if (blockMs > 0 && cost > 0 && penalty.isInFuture(cells, at, policy, now, 0))
      write(cells, at, now, viewAt(cells, at, now));
    return peek(bucket, cost === 0 ? 0 : 1, now);
  },

  used(cells, at, policy, now) {
    const view = viewAt(cells, at, now);
    return view.blockMs > 0 ? policy.capacityUnits : strikesOf(view, policy);
  },

  wait(cells, at, policy, now, amount) {
    const view = viewAt(cells, at, now);
    if (view.blockMs > 0) return view.blockMs;
    return view.memoryMs - (strikesOf(view, policy) - amount) * policy.windowMs;
  },

  reset(cells, at, _policy, now) {
    const { blockMs, memoryMs } = viewAt(cells, at, now);
    return blockMs + memoryMs;
  },

  isInFuture: (cells, at, _policy, now) => (cells[at] as number) > now,

  add(cells, at, policy, now, _used, cost) {
    const view = viewAt(cells, at, now);
    if (cost > 0) {
      const { durationsMs } = policy.block as PenaltyNumbers;
      const most = durationsMs.length * policy.windowMs;
      view.memoryMs = Math.min(view.memoryMs + Math.min(cost, durationsMs.length) * policy.windowMs, most);
      view.blockMs = durationsMs[strikesOf(view, policy) - 1] as number;
    }
    write(cells, at, now, view);
  },

  /** Forgets strikes. A block stays. */
  refund(cells, at, policy, now, _used, cost) {
    const view = viewAt(cells, at, now);
    view.memoryMs = Math.max(0, view.memoryMs - Math.min(cost, 1001) * policy.windowMs);
    write(cells, at, now, view);
  },

  block(cells, at, now, forMs) {
    const view = viewAt(cells, at, now);
    view.blockMs = Math.max(view.blockMs, forMs);
    write(cells, at, now, view);
  },

  unblock(cells, at, now) {
    const view = viewAt(cells, at, now);
    if (view.blockMs === 0) return false;
    view.blockMs = 0;
    write(cells, at, now, view);
    return true;
  },

  describe(state, policy, now) {
    const view = viewAt(state.length > 0 ? (state as number[]) : [0, 0, 0], 0, now);
    return { strikes: strikesOf(view, policy), blockedMs: view.blockMs };
  },
};

/** The durations in ms that are left: of the block, and after it until the last strike is forgotten. */
interface View {
  blockMs: number;
  memoryMs: number;
}

/** If the clock has stepped back behind the last write, no time has passed since. */
function viewAt(cells: Cells, at: number, now: number): View {
  const since = Math.max(now, cells[at] as number);
  const blockMs = Math.max(0, (cells[at + 1] as number) - since);
  return { blockMs, memoryMs: Math.max(0, (cells[at + 2] as number) - since - blockMs) };
}

/** Current strikes. One that is partly forgotten still counts. */
function strikesOf({ memoryMs }: View, { windowMs }: CompiledPolicy): number {
  return Math.ceil(memoryMs / windowMs);
}

function write(cells: Cells, at: number, now: number, { blockMs, memoryMs }: View): void {
  cells[at] = blockMs + memoryMs === 0 ? 0 : now;
  cells[at + 1] = blockMs > 0 ? now + blockMs : 0;
  cells[at + 2] = memoryMs > 0 ? now + blockMs + memoryMs : 0;
}
