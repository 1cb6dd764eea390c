/** A list that a function of the application loads: refreshed without a timer, while the old list stays in use. */
import { monotonicMs } from "../../base/clock.ts";
import { optionError, SluiceError } from "../../base/errors.ts";
import type { MaybePromise } from "../../base/maybe-promise.ts";
import { runInSlices, type Steps } from "../../base/slices.ts";
import type { AbuseReports } from "../reports.ts";
import type { ListSettings } from "./list-options.ts";

/** How a list is loaded and built. */
export interface ListLoader<Source, Content> extends Omit<ListSettings, "except"> {
  /** The function that creates the list, for errors. */
  readonly what: string;
  /** The function of the application. */
  load(): Promise<Source>;
  /** Builds the content of the list, or throws if the source is invalid. */
  build(source: Source): Steps<Content>;
}

/** How long requests wait for the first load, in ms. Later loads run in the background. */
const FIRST_WAIT_MS = 3000;
/** After this time, a load or a build that has not ended is given up, in ms. */
const MAX_LOAD_MS = 60_000;
/** The longest time before a failed load is repeated, in ms. */
const MAX_RETRY_MS = 60_000;

/** One call of the application's function. Times are monotonic milliseconds. */
interface Load {
  readonly reports: AbuseReports;
  /** Until when requests wait for it. */
  readonly waitEndsAtMs: number;
  giveUpAtMs: number;
  isReported: boolean;
  /** Resolves when it has ended. Never rejects. */
  done: Promise<void> | undefined;
}

/** The content of a list, which is `undefined` until it was loaded once. */
export class LoadedList<Source, Content extends object> {
  private readonly loader: ListLoader<Source, Content>;
  private content: Content | undefined;
  /** The load in flight. One that was given up is not in flight, and changes nothing any more. */
  private load: Load | undefined;
  private nextLoadAtMs: number = Number.NEGATIVE_INFINITY;
  private hasStarted = false;

  constructor(loader: ListLoader<Source, Content>) {
    this.loader = loader;
  }

  /** Returns the content, and starts a load if one is due. Only the first load is waited for. */
  use(reports: AbuseReports): MaybePromise<Content | undefined> {
    const now = monotonicMs();
    if (this.load && now >= this.load.giveUpAtMs) {
      this.fail(this.load, this.lateError(MAX_LOAD_MS));
    }
    if (!this.load && now >= this.nextLoadAtMs) this.start(reports, now);
    const { load } = this;
    return this.content ?? (load && now < load.waitEndsAtMs ? this.wait(load, load.waitEndsAtMs - now) : undefined);
  }

  private start(reports: AbuseReports, now: number): void {
    const waitEndsAtMs = this.hasStarted ? now : now + FIRST_WAIT_MS;
    const load: Load = { reports, waitEndsAtMs, giveUpAtMs: now + MAX_LOAD_MS, isReported: false, done: undefined };
    this.hasStarted = true;
    this.load = load;
    load.done = this.run(load);
    try {
      this.loader.waitUntil?.(load.done);
    } catch (cause) {
      const expected = "a function that works without its object, such as waitUntil of cloudflare:workers";
      this.report(load, Object.assign(optionError("invalid-option", "waitUntil", expected), { cause }));
    }
  }

  private async run(load: Load): Promise<void> {
    const isCurrent = (): boolean => this.load === load;
    try {
      const source = await this.loader.load();
      load.giveUpAtMs = monotonicMs() + MAX_LOAD_MS;
      const content = await runInSlices(this.loader.build(source), isCurrent);
      // It was given up.
      if (!content) return;
      this.content = content;
      this.load = undefined;
      this.nextLoadAtMs = monotonicMs() + this.loader.refreshMs;
      load.reports.listRefreshed(this.loader.name);
    } catch (error) {
      if (isCurrent()) this.fail(load, error);
    }
  }

  /** Waits until the first load has ended, for a bounded time. The timer is one of the request, as Workers require. */
  private wait(load: Load, waitMs: number): Promise<Content | undefined> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        resolve(this.content);
      };
      const timer = setTimeout(() => {
        if (!this.content) this.report(load, this.lateError(FIRST_WAIT_MS));
        end();
      }, Math.ceil(waitMs));
      void load.done?.then(end);
    });
  }

  private fail(load: Load, error: unknown): void {
    this.load = undefined;
    this.nextLoadAtMs = monotonicMs() + Math.min(this.loader.refreshMs, MAX_RETRY_MS);
    this.report(load, error);
  }

  /** Reports a failed load, once. */
  private report(load: Load, error: unknown): void {
    if (load.isReported) return;
    load.isReported = true;
    load.reports.listStale(this.loader.name, error instanceof SluiceError ? error : this.loadError("failed", error));
  }

  private lateError(ms: number): SluiceError {
    return this.loadError(`took longer than ${ms / 1000} s`);
  }

  private loadError(problem: string, cause?: unknown): SluiceError {
    const message = `${this.loader.what}: loading the list ${problem}. The old list stays in use; without one, the list is empty.`;
    return new SluiceError("invalid-option", message, { option: "source", cause });
  }
}
