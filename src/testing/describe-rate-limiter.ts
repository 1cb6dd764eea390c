/** The contract of a limiter as a suite that anybody can run on theirs. */
import { monotonicMs } from "../core/clock.ts";
import type { AlgorithmName } from "../core/policy.ts";
import { inputLaws } from "./laws/input-laws.ts";
import type { Bench, Law } from "./laws/law.ts";
import { spendingLaws } from "./laws/spending-laws.ts";
import { timeLaws } from "./laws/time-laws.ts";
import { randomFrom } from "./random.ts";
import { type Runner, runnerOf } from "./runner.ts";
import { ALGORITHMS, type CreateSubject, policyOf, type Subject, subjectOf, type Time } from "./subject.ts";

/** How a suite is run. */
export interface SuiteOptions extends Partial<Runner> {
  /** The algorithms to try. Default: all five. */
  algorithms?: readonly AlgorithmName[];
  /**
   * `"fake"`: `advance` moves a clock by the millisecond. `"real"`: it really waits, and laws of single
   * milliseconds are left out. `"none"`: there is no `advance`. Default: what the first subject shows.
   */
  time?: Time;
  /** Whether subjects can be restarted. Default: what the first subject shows. */
  restart?: boolean;
  /** Brings back a failure that printed its seed. Default: another one every time. */
  seed?: number;
}

const LAWS: readonly Law[] = [...spendingLaws, ...timeLaws, ...inputLaws];

/** Runs the laws on limiters made by `create`, each law on fresh ones. */
export function describeRateLimiter(name: string, create: CreateSubject, options: SuiteOptions = {}): void {
  const { describe, it } = runnerOf(options);
  const { algorithms = ALGORITHMS, seed = Math.floor(Math.random() * 2 ** 31) } = options;
  const shown = options.time === undefined ? probe(create, algorithms[0] ?? "token-bucket") : undefined;
  const time = options.time ?? shown?.time ?? "fake";
  const restart = options.restart ?? shown?.restart ?? false;
  // What is left out is said in the title, so that nobody takes it for passed.
  describe(`RateLimiter: ${name}${time === "none" ? " (only the laws that need no time)" : ""}`, () => {
    for (const algorithm of algorithms) {
      describe(algorithm, () => {
        for (const law of LAWS) {
          if (!applies(law, algorithm, time, restart)) continue;
          it(law.title, () => tryLaw(law, benchOf(create, algorithm, seed, time)));
        }
      });
    }
  });
}

/** Runs a law; a failure tells the seed that brings it back. */
export async function tryLaw<B extends { random: { seed: number } }>(
  law: { run(bench: B): Promise<void> },
  bench: B,
): Promise<void> {
  try {
    await law.run(bench);
  } catch (error) {
    throw new Error(`${(error as Error).message} (seed ${bench.random.seed})`, { cause: error });
  }
}

function benchOf(create: CreateSubject, algorithm: AlgorithmName, seed: number, time: Time): Bench {
  return {
    algorithm,
    random: randomFrom(seed),
    async create(policy) {
      const subject = subjectOf(await create(policy));
      return time === "real" ? waitingInFull(subject) : subject;
    },
  };
}

/** Waits at least as long as it is told to: Node's `setTimeout` fires up to a millisecond early. */
function waitingInFull(subject: Subject): Subject {
  const { advance } = subject;
  if (!advance) return subject;
  return {
    ...subject,
    async advance(ms) {
      const until = monotonicMs() + ms;
      for (let left = ms; left > 0; left = until - monotonicMs()) await advance(Math.ceil(left));
    },
  };
}

function applies({ needs, only }: Law, algorithm: AlgorithmName, time: Time, restart: boolean): boolean {
  if (only && !only.includes(algorithm)) return false;
  if (needs === "restart") return restart;
  return needs === undefined || (needs === "time" ? time !== "none" : time === "fake");
}

/** What a first subject can do. One that comes as a promise can't be looked into before the cases are named. */
function probe(create: CreateSubject, algorithm: AlgorithmName): { time: Time; restart: boolean } | undefined {
  const made = create(policyOf(algorithm, 1, 1000));
  if (made instanceof Promise) {
    made.then((made) => subjectOf(made).limiter.dispose()).catch(() => {});
    return undefined;
  }
  const { limiter, advance, restart } = subjectOf(made);
  void limiter.dispose();
  return { time: advance ? "fake" : "none", restart: restart !== undefined };
}
