/** The contract test suite for a rate limiter. */

import { monotonicMs } from "../base/clock.ts";
import { SluiceError } from "../base/errors.ts";
import type { AlgorithmName, Policy } from "../core/policy.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import { compilePolicy } from "../policy/compile-policy.ts";
import { inputLaws } from "./laws/input-laws.ts";
import { keyLaws } from "./laws/key-laws.ts";
import type { Bench, Law } from "./laws/law.ts";
import { refundLaws } from "./laws/refund-laws.ts";
import { spendingLaws } from "./laws/spending-laws.ts";
import { timeLaws } from "./laws/time-laws.ts";
import { randomFrom } from "./random.ts";
import { type Runner, resolveRunner } from "./runner.ts";
import { ALGORITHMS, type CreateSubject, policyOf, type Subject, type Time, toSubject } from "./subject.ts";

/** Options of `describeRateLimiter`. */
export interface SuiteOptions extends Partial<Runner> {
  /** The algorithms to test. Default: all five with a rate, and in `storeSuite` also concurrency and penalty. */
  algorithms?: readonly AlgorithmName[];
  /**
   * `"fake"`: `advance` moves a clock by exact milliseconds. `"real"`: `advance` waits, and cases that need exact
   * milliseconds are omitted. `"none"`: there is no `advance`. Default: detected from the first subject.
   */
  time?: Time;
  /** Whether subjects have `restart`. Default: detected from the first subject. */
  restart?: boolean;
  /** Seed of the random cases. Pass the seed of a failure to reproduce it. Default: random. */
  seed?: number;
}

const LAWS: readonly Law[] = [...spendingLaws, ...refundLaws, ...keyLaws, ...timeLaws, ...inputLaws];

/** Registers the contract tests for limiters made by `create`. Every case creates its own. */
export function describeRateLimiter(name: string, create: CreateSubject, options: SuiteOptions = {}): void {
  const { describe, it } = resolveRunner(options);
  const { algorithms = ALGORITHMS, seed = Math.floor(Math.random() * 2 ** 31) } = options;
  const detected = options.time === undefined ? detect(create, algorithms[0] ?? "token-bucket") : undefined;
  const time = options.time ?? detected?.time ?? "fake";
  const restart = options.restart ?? detected?.restart ?? false;
  // The title names omitted cases: a green run must not suggest that they passed.
  describe(`RateLimiter: ${name}${time === "none" ? " (without the cases that need time)" : ""}`, () => {
    for (const algorithm of algorithms) {
      describe(algorithm, () => {
        for (const law of LAWS) {
          if (!isApplicable(law, algorithm, time, restart)) continue;
          it(law.title, () => runLaw(law, createBench(create, algorithm, seed, time)));
        }
      });
    }
  });
}

/** Runs a law and adds the seed to the message of a failure. */
export async function runLaw<B extends { random: { seed: number } }>(
  law: { run(bench: B): Promise<void> },
  bench: B,
): Promise<void> {
  try {
    await law.run(bench);
  } catch (error) {
    throw new Error(`${(error as Error).message} (seed ${bench.random.seed})`, { cause: error });
  }
}

function createBench(create: CreateSubject, algorithm: AlgorithmName, seed: number, time: Time): Bench {
  return {
    algorithm,
    random: randomFrom(seed),
    async create(policy) {
      const subject = subjectFor(policy, await create(policy));
      return time === "real" ? withFullWaits(subject) : subject;
    },
  };
}

/** The subject of a policy. Throws if its limiter has another one: most cases would fail, each for another reason. */
function subjectFor(policy: Policy, created: RateLimiter | Subject): Subject {
  const subject = toSubject(created);
  const given = subject.limiter.getPolicy?.();
  const { resolved } = compilePolicy(policy);
  if (!given || (given.capacity === resolved.capacity && given.windowMs === resolved.windowMs)) return subject;
  const message = `The limiter has the policy "${given.name}", but the suite asked for "${resolved.name}". Create it with the policy that create is called with: describeRateLimiter(name, (policy) => memoryRateLimiter(policy)).`;
  throw new SluiceError("invalid-limiter", message, {
    option: "create",
    expected: resolved.name,
    received: given.name,
  });
}

/** Repeats `advance` until the whole time has passed: Node's `setTimeout` fires up to a millisecond early. */
function withFullWaits(subject: Subject): Subject {
  const { advance } = subject;
  if (!advance) return subject;
  return {
    ...subject,
    async advance(ms) {
      const until = monotonicMs() + ms;
      for (let leftMs = ms; leftMs > 0; leftMs = until - monotonicMs()) await advance(Math.ceil(leftMs));
    },
  };
}

function isApplicable({ needs, only }: Law, algorithm: AlgorithmName, time: Time, restart: boolean): boolean {
  if (only && !only.includes(algorithm)) return false;
  if (needs === "restart") return restart;
  return needs === undefined || (needs === "time" ? time !== "none" : time === "fake");
}

/** Detects what a first subject supports. Not possible for a promise: cases are registered synchronously. */
function detect(create: CreateSubject, algorithm: AlgorithmName): { time: Time; restart: boolean } | undefined {
  const policy = policyOf(algorithm, 1, 1000);
  const created = create(policy);
  if (created instanceof Promise) {
    created.then((created) => toSubject(created).limiter.dispose()).catch(() => {});
    return undefined;
  }
  const { limiter, advance, restart } = subjectFor(policy, created);
  void limiter.dispose();
  return { time: advance ? "fake" : "none", restart: restart !== undefined };
}
