/**
 * A test-only algorithm whose state is a bounded list: the end of every unit of cost, oldest first. It proves that an
 * algorithm with list state needs no change in any store, and strike-log.lua is its twin on Redis.
 */
import type { Policy } from "sluice";
import type { Algorithm, CompiledPolicy, PolicyForm } from "sluice/algorithms";

/** The algorithm's name in policies. */
export const STRIKE_LOG = "strike-log" as "sliding-log";

const WORD = "hits";

/** Adds the algorithm to the table of the suites, which name algorithms, and returns a function that removes it again. */
export function addStrikeLog(algorithms: Readonly<Record<string, Algorithm>>): () => void {
  const table = algorithms as Record<string, Algorithm>;
  table[STRIKE_LOG] = strikeLog((table["sliding-log"] as Algorithm).form);
  return () => delete table[STRIKE_LOG];
}

/** The algorithm, whose policies are written like those of a sliding log. */
export function strikeLog(form: PolicyForm): Algorithm {
  const algorithm: Algorithm = {
    name: STRIKE_LOG,
    form: {
      ...form,
      word: WORD,
      text: (numbers) => `${form.shortText(numbers)} ${WORD}`,
      fromText: (...args) => ({ ...form.fromText(...args), algorithm }) as unknown as Policy,
      fromNumbers: (numbers) => ({ ...form.fromNumbers(numbers), algorithm: STRIKE_LOG }),
    },
    width: 1,
    list: true,
    isList: (state) => state.every((end, i) => i === 0 || end >= (state[i - 1] as number)),

    used: (cells, at, _policy, now) => live(cells[at] as number[], now).length,
    wait: (cells, at, policy, now, amount) => untilEnd(live(cells[at] as number[], now)[amount - 1], policy, now),
    reset: (cells, at, policy, now) => untilEnd((cells[at] as number[]).at(-1), policy, now),
    isInFuture: (cells, at, { windowMs }, now) => ((cells[at] as number[]).at(-1) as number) > now + windowMs,

    add(cells, at, policy, now, _used, cost) {
      const ends = clamped(cells[at] as number[], policy, now);
      write(cells[at] as number[], [...ends, ...new Array<number>(cost).fill(now + policy.windowMs)]);
    },

    refund(cells, at, policy, now, _used, cost, grantEndsAt) {
      const ends = clamped(cells[at] as number[], policy, now);
      if (grantEndsAt === undefined) {
        write(cells[at] as number[], ends.slice(0, Math.max(0, ends.length - cost)));
        return;
      }
      let left = cost;
      const grantEnd = Math.min(grantEndsAt, now + policy.windowMs);
      write(
        cells[at] as number[],
        ends.filter((end) => end !== grantEnd || --left < 0),
      );
    },
  };
  return algorithm;
}

function live(ends: readonly number[], now: number): readonly number[] {
  const first = ends.findIndex((end) => end > now);
  return first < 0 ? [] : ends.slice(first);
}

/** The ends that still count, none of them later than that of a charge at `now`. */
function clamped(ends: readonly number[], { windowMs }: CompiledPolicy, now: number): number[] {
  return live(ends, now).map((end) => Math.min(end, now + windowMs));
}

function untilEnd(end: number | undefined, { windowMs }: CompiledPolicy, now: number): number {
  return Math.min((end as number) - now, windowMs);
}

function write(list: number[], ends: readonly number[]): void {
  list.splice(0, list.length, ...ends);
}
