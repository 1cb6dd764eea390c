/** Mutants of the holds, each the source with one known bug. */

import { readFileSync } from "node:fs";

/** One known bug: text of a source file, and what replaces it. */
export interface Mutant {
  readonly name: string;
  readonly changes: readonly Change[];
  /** Whether it runs in an endless loop, which the tests find by not ending. */
  readonly isEndless?: true;
}

/** A change of one file of src. `from` occurs in it once. */
export interface Change {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

const inFile = (file: string) => (from: string, to: string) => ({ file, from, to });
const ledger = readFileSync(new URL("../../src/holds/held-ledger.ts", import.meta.url), "utf8");
/** A change of a bucket with holds, in whichever of its two files the text is. */
const holds = (from: string, to: string) =>
  inFile(ledger.includes(from) ? "holds/held-ledger.ts" : "holds/held-state.ts")(from, to);
const penalty = inFile("penalties/penalty-algorithm.ts");
const decide = inFile("core/decide.ts");
const decideHeld = inFile("holds/decide-held.ts");

/** So few that a walk reaches the maximum. */
export const FEW_HOLDS: Change = inFile("policy/max-holds.ts")("MAX_HOLDS = 1000", "MAX_HOLDS = 3");

const REMOVE = "if (!this.remove(id)) return false;";
const SETTLE = "this.charge(actual, this.now);";
const OWN = holds(REMOVE, `const own = this.find(id); ${REMOVE}`);
const IS_FREE = 'if (rules?.applyIfDenied || policy.kind === "penalty" || cost > policy.limit) return false;';

/** The bugs in TypeScript. */
export const MUTANTS: readonly Mutant[] = [
  {
    name: "what is held can be spent",
    changes: [holds("cost === 0 || this.leavesRoom(cost, this.held)", "cost === 0 || this.leavesRoom(cost, 0)")],
  },
  { name: "a hold is released at its end", changes: [holds("this.charge(hold.amount, next);", "")] },
  {
    name: "a hold that has ended is charged as of now",
    changes: [holds("this.charge(hold.amount, next);", "this.charge(hold.amount, time);")],
  },
  {
    name: "a settled hold remains, and is charged again at its end",
    changes: [holds(REMOVE, "if (!this.find(id)) return false;")],
  },
  { name: "the settlement of a missing hold is charged", changes: [holds(REMOVE, "this.remove(id);")] },
  { name: "settling is free", changes: [holds(SETTLE, "")] },
  {
    name: "a settlement charges no more than the estimate",
    changes: [OWN, holds(SETTLE, "this.charge(Math.min(actual, own.amount), this.now);")],
  },
  {
    name: "debts are forgiven",
    changes: [holds("const rest = Math.min(owed - fit, policy.limit);", "const rest = 0;")],
  },
  {
    name: "a debt may be two limits",
    isEndless: true,
    changes: [holds("Math.min(owed - fit, policy.limit);", "Math.min(owed - fit, 2 * policy.limit);")],
  },
  {
    name: "a debt of another plan stays as it was",
    changes: [holds("if (this.debt) this.reviewDebt(this.debt);", "")],
  },
  {
    name: "a refund leaves debts",
    changes: [holds("const debt = this.takeDebt();\n    if (cost > debt)", "const debt = 0;\n    if (cost > debt)")],
  },
  { name: "a renewal is held twice", changes: [holds("this.remove(id);\n    const end", "const end")] },
  {
    name: "a renewal needs room for itself",
    changes: [holds("if (own && amount <= own.amount) return true;", "")],
  },
  {
    name: "a larger renewal does not replace its own amount",
    changes: [holds("this.held - (own?.amount ?? 0)", "this.held")],
  },
  {
    name: "a clock that steps back prolongs holds",
    changes: [holds("const back = Math.max(0, stored.writtenAt - now);", "const back = 0;")],
  },
  { name: "a step back is not written", changes: [decideHeld("&& bucket.isInFuture;", "&& false;")] },
  { name: "a denial writes", changes: [decideHeld(" && bucket.isInFuture;", ";")] },
  {
    name: "holds are not ordered by their ends",
    changes: [holds("while (at > 0 && (holds[at - 1] as StoredHold).end > end) at--;", "")],
  },
  {
    name: "the wait assumes that holds are released",
    changes: [
      holds(
        "later.endUntil(time);\n    }\n  }",
        "if (later.debt?.dueAt === time) later.takeDebt(); else later.held -= later.holds[later.first++].amount;\n    }\n  }",
      ),
    ],
  },
  {
    name: "the wait ignores holds",
    changes: [
      holds("policy.limit - cost - later.held + (isOwnHeld ? own.amount : 0);", "Math.max(0, policy.limit - cost);"),
    ],
  },
  {
    name: "the wait is for the last hold",
    changes: [
      holds("const next = later.nextEnd();", "const next = Math.max(later.nextEnd(), later.holds.at(-1)?.end ?? 0);"),
    ],
  },
  {
    name: "the earliest retry ignores debts",
    changes: [holds("copy.held = copy.debt?.amount ?? 0;", "copy.held = 0;\n    copy.debt = undefined;")],
  },
  {
    name: "a bucket has any number of holds",
    changes: [
      FEW_HOLDS,
      holds("if (!own && this.holds.length - this.first >= this.policy.maxHolds) return false;", ""),
    ],
  },
  {
    name: "the estimate is taken at once, and the rest refunded (S instead of R)",
    changes: [
      holds("{ id, amount, end });", "{ id, amount: 0, end, estimate: amount });"),
      holds(
        "this.held += amount;\n  }\n\n  /** Charges the actual",
        "this.take(amount);\n  }\n\n  /** Charges the actual",
      ),
      OWN,
      holds(
        SETTLE,
        "if (own.estimate > actual) this.refund(own.estimate - actual); else this.charge(actual - own.estimate, this.now);",
      ),
    ],
  },
  {
    name: "a denial by a block is a violation",
    changes: [decide(IS_FREE, "if (cost > policy.limit) return false;")],
  },
  {
    name: "a cost that never fits is a violation",
    changes: [decide(IS_FREE, 'if (rules?.applyIfDenied || policy.kind === "penalty") return false;')],
  },
  {
    name: "violations are never recorded",
    changes: [decide("const isViolation = countsAsViolation(group, fit);", "const isViolation = false;")],
  },
  {
    name: "an admitted group is a violation",
    changes: [
      decide(
        "return group.map((charge, i) => decide(states[i], charge, now, engine));",
        'return group.map((charge, i) => charge.mode === "penalty" ? applyAction(states[i] as PlainState, charge, MODES.penalty, "add", now) : decide(states[i], charge, now, engine));',
      ),
    ],
  },
  {
    name: "strikes are forgotten during a block",
    changes: [penalty("(cells[at + 2] as number) - since - blockMs)", "(cells[at + 2] as number) - since)")],
  },
  {
    name: "a block by hand shortens a longer one",
    changes: [penalty("Math.max(view.blockMs, forMs)", "forMs")],
  },
  {
    name: "strikes have no maximum",
    changes: [penalty("* policy.windowMs, most);", "* policy.windowMs, 2 * most);")],
  },
  {
    name: "a clock that steps back prolongs a block",
    changes: [penalty("const since = Math.max(now, cells[at] as number);", "const since = now;")],
  },
];
