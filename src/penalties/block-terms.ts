/** The terms of charges that block or unblock a key. Without the code of other holds. */
import type { HoldEngine, HoldTerms } from "../core/charge.ts";
import { blockEngine } from "./decide-block.ts";

/** A key has one block, so its id does not matter. */
const BLOCK_ID = "block";

/** The engine is on the prototype, so a store may serialise the terms. */
class Terms implements HoldTerms {
  readonly id: string = BLOCK_ID;
  readonly forMs: number;

  constructor(forMs: number) {
    this.forMs = forMs;
  }

  get engine(): HoldEngine {
    return blockEngine;
  }
}

/** The terms of a charge that blocks a key, or that ends its block with 0 ms. */
export function blockTerms(forMs = 0): HoldTerms {
  return new Terms(forMs);
}
