/** The contract test suite for an idempotency store. */
import { monotonicMs } from "../base/clock.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import type { IdempotencyStore } from "../idempotency/idempotency-store.ts";
import { beginCases } from "./idempotency/begin-cases.ts";
import { IdempotencyBench, type IdempotencyCase } from "./idempotency/bench.ts";
import { clockCases } from "./idempotency/clock-cases.ts";
import { inputCases } from "./idempotency/input-cases.ts";
import { keyCases } from "./idempotency/key-cases.ts";
import { leaseCases } from "./idempotency/lease-cases.ts";
import { ownerCases } from "./idempotency/owner-cases.ts";
import { responseCases } from "./idempotency/response-cases.ts";
import { type Runner, resolveRunner } from "./runner.ts";

/** An idempotency store under test. */
export interface IdempotencySubject {
  /** The store. */
  readonly store: IdempotencyStore;
  /** Advances the store's clock by `ms`, or moves it back if negative. Default: the suite waits, for a tenth of a second per case. */
  advance?(ms: number): MaybePromise<void>;
}

/** Options of `idempotencySuite`. */
export interface IdempotencySuiteOptions extends Partial<Runner> {
  /**
   * `"fake"`: every subject has `advance`, and cases that need exact milliseconds or a clock that steps back are added.
   * Default: `"real"`.
   */
  time?: "fake" | "real";
}

/** Creates a store. It may share its data with other stores of the suite, because every case has scopes of its own. */
export type CreateIdempotencyStore = () => MaybePromise<IdempotencyStore | IdempotencySubject>;

/** Registers the contract tests, 61 cases, for stores made by `create`. */
export function idempotencySuite(
  name: string,
  create: CreateIdempotencyStore,
  options: IdempotencySuiteOptions = {},
): void {
  const { describe, it } = resolveRunner(options);
  const hasClock = options.time === "fake";
  const register = (title: string, cases: readonly IdempotencyCase[]): void =>
    describe(title, () => {
      for (const { title, run } of cases) it(title, async () => run(benchOf(await create())));
    });
  // The title names omitted cases: a green run must not suggest that they passed.
  describe(`IdempotencyStore: ${name}${hasClock ? "" : " (without the cases that need a fake clock)"}`, () => {
    register("begin", beginCases);
    register("owners", ownerCases);
    register("leases and TTLs", leaseCases);
    register("responses", responseCases);
    register("keys", keyCases);
    register("input", inputCases);
    if (hasClock) register("the clock", clockCases);
  });
}

function benchOf(created: IdempotencyStore | IdempotencySubject): IdempotencyBench {
  const { store, advance = wait }: IdempotencySubject = "store" in created ? created : { store: created };
  return new IdempotencyBench(store, advance);
}

/** Clocks of servers are read in whole milliseconds, and timers fire up to a millisecond early. */
const MARGIN_MS = 3;

async function wait(ms: number): Promise<void> {
  const until = monotonicMs() + ms + MARGIN_MS;
  for (let leftMs = ms + MARGIN_MS; leftMs > 0; leftMs = until - monotonicMs()) {
    await new Promise<void>((resolve) => setTimeout(resolve, Math.ceil(leftMs)));
  }
}
