/** The terms of charges in modes `hold` and `settle`. */
import type { HoldEngine, HoldTerms } from "../core/charge.ts";
import { holdEngine } from "./decide-held.ts";

/** The engine is on the prototype, so a store may serialise the terms. */
class Terms implements HoldTerms {
  readonly id: string;
  readonly forMs: number;

  constructor(id: string, forMs: number) {
    this.id = id;
    this.forMs = forMs;
  }

  get engine(): HoldEngine {
    return holdEngine;
  }
}

/** The terms of a charge in mode `hold`, or of one in mode `settle` with 0 ms. On a penalty, the charge blocks its key. */
export function holdTerms(id: string, forMs = 0): HoldTerms {
  return new Terms(id, forMs);
}
