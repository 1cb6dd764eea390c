/** The frames of one connection that wait: for their decision, for those before them, and for their time. */
import { monotonicMs } from "../../core/clock.ts";

/** One that waits. */
export interface Waiting {
  readonly bytes: number;
  /** Whether it is known what becomes of it. */
  readonly decided: boolean;
  /** When it may go on, as `elapsed` tells time. */
  readonly due: number;
}

/** A timer that is longer fires at once. */
export const MAX_TIMER_MS: number = 2 ** 31 - 1;

/** A line in the order in which frames came. */
export class FrameQueue<Turn extends Waiting> {
  private readonly turns: Turn[] = [];
  private bytes = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly most: { readonly maxQueued: number; readonly maxQueuedBytes: number };
  private readonly go: (turn: Turn) => void;

  /** `go` is called with each whose turn it is. */
  constructor(most: { readonly maxQueued: number; readonly maxQueuedBytes: number }, go: (turn: Turn) => void) {
    this.most = most;
    this.go = go;
  }

  get length(): number {
    return this.turns.length;
  }

  /** Whether there is no room for one of so many bytes. */
  isFull(bytes: number): boolean {
    const { maxQueued, maxQueuedBytes } = this.most;
    return this.turns.length >= maxQueued || this.bytes + bytes > maxQueuedBytes;
  }

  /** What there would be with one more, and what is allowed of that, where it is full. */
  excess(bytes: number): { observed: number; limit: number } {
    const { maxQueued, maxQueuedBytes } = this.most;
    if (this.turns.length >= maxQueued) return { observed: this.turns.length + 1, limit: maxQueued };
    return { observed: this.bytes + bytes, limit: maxQueuedBytes };
  }

  add(turn: Turn): void {
    this.turns.push(turn);
    this.bytes += turn.bytes;
  }

  /** Goes on with those at the head of the line whose time has come. */
  advance(): void {
    clearTimeout(this.timer);
    for (let turn = this.turns[0]; turn?.decided; turn = this.turns[0]) {
      const wait = turn.due - monotonicMs();
      if (wait > 0) {
        // Whoever went on may have set another one meanwhile.
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.advance(), Math.min(Math.ceil(wait), MAX_TIMER_MS));
        return;
      }
      this.turns.shift();
      this.bytes -= turn.bytes;
      this.go(turn);
    }
  }

  /** Drops all of them. */
  clear(): void {
    this.turns.length = 0;
    this.bytes = 0;
    clearTimeout(this.timer);
  }
}
