/** Random walks over a penalty beside a rate limit: strikes by violations and by hand, blocks, and what is forgotten. */
import type { Charge, CompiledPolicy, Decision, Group, Mode } from "sluice";
import type { decide, decideGroup, State } from "sluice/algorithms";
import { randomFrom } from "../../src/testing/random.ts";
import { HeldModel } from "./held-model.ts";
import { heldSample, nextInstant, penaltyPolicy } from "./held-samples.ts";
import { checkEqual, Tally } from "./held-walk.ts";

/** The code under test. A mutant has another one. */
export interface PenaltyEngine {
  readonly decide: typeof decide;
  readonly decideGroup: typeof decideGroup;
}

const ACTIONS = [
  ...(["violate", "violate", "violate", "violate", "look", "peek at both", "peek beside"] as const),
  ...(["strike", "forget", "block", "unblock", "reset"] as const),
];
type Action = (typeof ACTIONS)[number];

const NO_LIMIT = 2 ** 31 - 1;

/** The durations of a key that are left as of `at`. */
class PenaltyModel {
  at = 0n;
  blockMs = 0n;
  /** After the block, until the last strike is forgotten. */
  memoryMs = 0n;

  viewAt(now: bigint): PenaltyModel {
    const view = Object.assign(new PenaltyModel(), this, { at: now });
    // Time passes first for the block, and then for the strikes. If the clock has stepped back, none has passed.
    for (let left = now > this.at ? now - this.at : 0n; left > 0n; ) {
      const part = view.blockMs > 0n ? "blockMs" : "memoryMs";
      const passed = left < view[part] ? left : view[part];
      view[part] -= passed;
      left -= passed;
      if (passed === 0n) break;
    }
    return view;
  }

  strikes(forgetMs: bigint): bigint {
    return (this.memoryMs + forgetMs - 1n) / forgetMs;
  }

  strike(times: number, { windowMs, block }: CompiledPolicy): void {
    const durationsMs = block?.durationsMs as readonly number[];
    const forgetMs = BigInt(windowMs);
    const most = BigInt(durationsMs.length) * forgetMs;
    this.memoryMs += BigInt(times) * forgetMs;
    if (this.memoryMs > most) this.memoryMs = most;
    this.blockMs = BigInt(durationsMs[Number(this.strikes(forgetMs)) - 1] as number);
  }
}

/** Runs random steps, in stretches with their own keys and clock. Throws at the first difference, with the last steps. */
export function walkPenalty(engine: PenaltyEngine, steps: number, seed: number): Tally {
  const random = randomFrom(seed);
  const tally = new Tally();
  for (let done = 0; done < steps; ) {
    let policy = penaltyPolicy(random);
    const rate = heldSample("token-bucket", random);
    const states = new Map<string, State>();
    let model = new PenaltyModel();
    let rateModel = new HeldModel("token-bucket", 1000);
    let now = random.pick([0, random.whole(0, 100_000), 1.8e12 + random.whole(0, 1e9)]);
    let waits: number[] = [];
    const last: string[] = [];

    /** Applies a group, and returns its decisions and whether the penalty was written. */
    const apply = (group: Group): { decisions: Decision[]; isWritten: boolean } => {
      const results = engine.decideGroup(group, ({ key }) => states.get(key), now);
      let isWritten = false;
      for (const [i, { changed, state }] of results.entries()) {
        const { key } = group[i] as Charge;
        if (changed) states.set(key, state);
        if (changed && key === "penalty") isWritten = true;
      }
      return { decisions: results.map(({ decision }) => decision), isWritten };
    };
    const penaltyCharge = (mode: Mode, cost: number, forMs?: number): Charge => {
      const charge = { policy, key: "penalty", cost, mode };
      return forMs === undefined ? charge : { ...charge, hold: { id: "block", forMs } };
    };

    /** Charges the rate limit and the penalty in one group, and returns the penalty's decision. */
    const stepGroup = (action: Action, view: PenaltyModel): { decision: Decision; isWritten: boolean } => {
      const { compiled, rule } = rate;
      const cost = random.pick([1, 1, 1, compiled.limit, Math.min(NO_LIMIT, compiled.limit + 1), 0]);
      const isLook = action === "peek at both";
      const mode: Mode = isLook || action === "peek beside" ? "peek" : "penalty";
      const wasBlocked = view.blockMs > 0n;
      const rateView = rateModel.viewAt(rule, BigInt(now));
      const fits = rateView.fits(rule, BigInt(cost));
      const charge: Charge = { policy: compiled, key: "rate", cost, mode: isLook ? "peek" : "take" };
      const group = [charge, penaltyCharge(mode, 1)];
      const isReversed = random.whole(0, 1) === 1;
      const { decisions, isWritten } = apply(isReversed ? group.toReversed() : group);
      const decision = decisions[isReversed ? 0 : 1] as Decision;
      checkEqual("allowed, of the rate limit", decisions[isReversed ? 1 : 0]?.allowed, fits);
      const isViolation = mode === "penalty" && !fits && !wasBlocked && cost <= compiled.limit;
      if (isViolation) view.strike(1, policy);
      if (!isLook && fits && !wasBlocked && cost > 0) {
        rateView.take(rule, BigInt(cost));
        rateModel = rateView;
      } else if (!isLook && !fits && cost <= compiled.limit) rateModel = rateView;
      checkEqual("allowed", decision.allowed, view.blockMs === 0n);
      if (isViolation || (mode === "penalty" && wasBlocked)) {
        checkEqual("whether it was written", isWritten, isViolation || model.at > BigInt(now));
      } else checkEqual("whether it was written", isWritten, false);
      tally.count(isViolation ? "violations" : wasBlocked ? "denied by the block" : fits ? "admitted" : "no violation");
      return { decision, isWritten };
    };

    /** Charges the penalty alone. */
    const stepAlone = (action: Action, view: PenaltyModel): { decision: Decision; isWritten: boolean } => {
      const times = random.pick([1, 1, 2, 5, 100]);
      const forMs = random.pick([1, 1000, 86_400_000]);
      const wasBlocked = view.blockMs > 0n;
      const charges: Record<string, () => Charge> = {
        strike: () => penaltyCharge("take", times),
        forget: () => penaltyCharge("refund", times),
        block: () => penaltyCharge("hold", 1, forMs),
        unblock: () => penaltyCharge("settle", 0, 0),
        reset: () => penaltyCharge("reset", 0),
      };
      const { decisions, isWritten } = apply([charges[action]?.() ?? penaltyCharge("penalty", 1)]);
      const decision = decisions[0] as Decision;
      const forgetMs = BigInt(policy.windowMs);
      if (action === "strike" && !wasBlocked) view.strike(times, policy);
      if (action === "forget") {
        const left = view.memoryMs - BigInt(times) * forgetMs;
        view.memoryMs = left > 0n ? left : 0n;
      }
      if (action === "block" && view.blockMs < BigInt(forMs)) view.blockMs = BigInt(forMs);
      if (action === "unblock") view.blockMs = 0n;
      if (action === "reset") view.blockMs = view.memoryMs = 0n;
      const isAllowed = action === "unblock" ? wasBlocked : action === "forget" || view.blockMs === 0n;
      checkEqual("allowed", decision.allowed, isAllowed);
      if (action === "look" && !wasBlocked) checkEqual("whether it was written", isWritten, false);
      tally.count(action);
      return { decision, isWritten };
    };

    for (let i = random.whole(20, 120); i > 0 && done < steps; i--, done++) {
      if (random.whole(1, 100) === 1) {
        policy = penaltyPolicy(random);
        tally.count("plan changes");
      }
      const then = nextInstant(random, now, waits, Math.min(1e9, policy.windowMs * 2));
      if (then < now) tally.count("backward steps");
      now = then;
      const action = random.pick(ACTIONS);
      const view = model.viewAt(BigInt(now));
      last.push(`${action} at ${now}: block ${view.blockMs}, memory ${view.memoryMs}, under ${policy.name}`);
      if (last.length > 12) last.shift();
      try {
        const isGroup = action === "violate" || action.startsWith("peek");
        const { decision, isWritten } = isGroup ? stepGroup(action, view) : stepAlone(action, view);
        checkNumbers(decision, view, policy, action === "unblock");
        waits = [view.blockMs, view.blockMs + view.memoryMs, BigInt(decision.nextAfterMs)].map(Number).filter(Boolean);
        if (isWritten) model = view;
        // What was not written is as before.
        const stored = engine.decide(states.get("penalty"), penaltyCharge("peek", 1), now).decision;
        const expected = model.viewAt(BigInt(now));
        checkEqual("the stored duration", stored.resetAfterMs, Number(expected.blockMs + expected.memoryMs));
      } catch (error) {
        const message = `penalty: ${(error as Error).message}\nSLUICE_SEED=${seed} step ${done}; the last steps of this key:`;
        throw new Error(`${message}\n  ${last.join("\n  ")}`);
      }
    }
  }
  tally.count("steps", steps);
  return tally;
}

function checkNumbers(
  decision: Decision,
  view: PenaltyModel,
  { windowMs }: CompiledPolicy,
  isSettlement: boolean,
): void {
  const { blockMs, memoryMs } = view;
  const strikes = view.strikes(BigInt(windowMs));
  checkEqual("remaining", decision.remaining, blockMs > 0n ? 0 : NO_LIMIT - Number(strikes));
  checkEqual("resetAfterMs", decision.resetAfterMs, Number(blockMs + memoryMs));
  const untilForgotten = memoryMs === 0n ? 0n : memoryMs - (strikes - 1n) * BigInt(windowMs);
  checkEqual("nextAfterMs", decision.nextAfterMs, Number(blockMs > 0n ? blockMs : untilForgotten));
  if (decision.allowed) return;
  checkEqual("retryAfterMs", decision.retryAfterMs, isSettlement ? null : Number(blockMs));
}
