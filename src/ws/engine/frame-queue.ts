/** The queue of one connection: frames that wait for a decision, for earlier frames, or for a delay. */
import { monotonicMs } from "../../base/clock.ts";
import type { Hold } from "../../holds/hold-options.ts";
import type { HandleFrame, Ingress } from "./ingress.ts";
import type { RejectReason } from "./violation.ts";

/** Whether a frame is being charged, is allowed, or is rejected and why. */
export type FrameState = typeof CHARGING | typeof ALLOWED | RejectReason;

/** The state of a frame that has no decision yet. */
export const CHARGING = { type: "charging" } as const;
/** The state of a frame that is within its limits. */
export const ALLOWED = { type: "allowed" } as const;

/** A received frame and its progress. */
export interface QueuedFrame<Data, F> {
  readonly frame: F;
  readonly bytes: number;
  readonly ingress: Ingress<Data>;
  readonly handle: HandleFrame<Data, F>;
  state: FrameState;
  /** When the frame was decided, as a monotonic time in ms. Unset for a frame that was dispatched without waiting. */
  decidedAt: number | undefined;
  /** When its delay ends, as a monotonic time in ms. */
  dueAt: number;
  /** The hold of an allowed frame, if a limit is a concurrency limit. Released when its handler has settled. */
  hold?: Hold | undefined;
}

/** Records the decision on a frame that has to wait. */
export function setDecided<Data, F>(queued: QueuedFrame<Data, F>, state: FrameState, delayMs: number): void {
  queued.state = state;
  queued.decidedAt = monotonicMs();
  queued.dueAt = queued.decidedAt + delayMs;
}

/** Releases the hold of a frame. A failure is retried in the background, and reported by the limiter. */
export function releaseHold(hold: Hold): void {
  hold.cancel().catch(() => {});
}

/** The longest delay of `setTimeout` in ms. Longer ones fire at once. */
export const MAX_TIMER_MS: number = 2 ** 31 - 1;

/** Bounds of a queue. */
interface QueueLimits {
  readonly maxQueued: number;
  readonly maxQueuedBytes: number;
}

/** Dispatches frames in the order in which they were received. */
export class FrameQueue<Data, F> {
  private readonly frames: QueuedFrame<Data, F>[] = [];
  private bytes = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly limits: QueueLimits;
  private readonly dispatch: (queued: QueuedFrame<Data, F>) => void;

  constructor(limits: QueueLimits, dispatch: (queued: QueuedFrame<Data, F>) => void) {
    this.limits = limits;
    this.dispatch = dispatch;
  }

  get length(): number {
    return this.frames.length;
  }

  /** Whether a frame of this size does not fit. */
  isFull(bytes: number): boolean {
    const { maxQueued, maxQueuedBytes } = this.limits;
    return this.frames.length >= maxQueued || this.bytes + bytes > maxQueuedBytes;
  }

  /** For a frame that does not fit: the number of frames or bytes with it, and the limit. */
  overflow(bytes: number): { observed: number; limit: number } {
    const { maxQueued, maxQueuedBytes } = this.limits;
    if (this.frames.length >= maxQueued) return { observed: this.frames.length + 1, limit: maxQueued };
    return { observed: this.bytes + bytes, limit: maxQueuedBytes };
  }

  add(queued: QueuedFrame<Data, F>): void {
    this.frames.push(queued);
    this.bytes += queued.bytes;
  }

  /** Dispatches the frames at the head of the queue that are decided and due. */
  advance(): void {
    clearTimeout(this.timer);
    for (let head = this.frames[0]; head && head.state.type !== "charging"; head = this.frames[0]) {
      const wait = head.dueAt - monotonicMs();
      if (wait > 0) {
        // A handler that received another frame may have called `advance` and set a timer.
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.advance(), Math.min(Math.ceil(wait), MAX_TIMER_MS));
        return;
      }
      this.frames.shift();
      this.bytes -= head.bytes;
      this.dispatch(head);
    }
  }

  /** Drops all frames. */
  clear(): void {
    for (const { hold } of this.frames) if (hold) releaseHold(hold);
    this.frames.length = 0;
    this.bytes = 0;
    clearTimeout(this.timer);
  }
}
