/** What is known about one backing service: durations, errors, and whether it is up. */
import type { SluiceError } from "../base/errors.ts";
import type { ObservedEvent } from "../core/events.ts";
import type { StoreObserver } from "../core/observer.ts";
import { type StoreErrorKind, storeErrorKind } from "./error-kind.ts";
import { Histogram } from "./histogram.ts";

/** Counts the calls of one backing service. */
export class StoreStats implements StoreObserver {
  /** Its kind, with a number if there are several: `redis`, `redis-2`. */
  readonly name: string;
  readonly durations: Histogram = new Histogram();
  readonly errors: Map<StoreErrorKind, number> = new Map();
  isUp = true;
  /** When it went down or up, in epoch ms; `undefined`: it has been up since the start. */
  changedAt: number | undefined;
  /** Called with the duration of every reply, in seconds. */
  onReply: ((seconds: number) => void) | undefined;
  private readonly emit: (event: ObservedEvent, stats: StoreStats) => void;

  constructor(name: string, emit: (event: ObservedEvent, stats: StoreStats) => void) {
    this.name = name;
    this.emit = emit;
  }

  replied(durationMs: number): void {
    const seconds = durationMs / 1000;
    this.durations.record(seconds);
    this.onReply?.(seconds);
  }

  failed(error: SluiceError, isRejected: boolean): void {
    const kind = storeErrorKind(error, isRejected);
    this.errors.set(kind, (this.errors.get(kind) ?? 0) + 1);
  }

  down(error: SluiceError): void {
    this.isUp = false;
    this.emit({ type: "store-down", error }, this);
  }

  up(downMs: number): void {
    this.isUp = true;
    this.emit({ type: "store-up", downMs }, this);
  }

  degraded(error: SluiceError, count: number): void {
    this.emit({ type: "degraded", error, count }, this);
  }
}
