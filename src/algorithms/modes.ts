/** The rules of charge modes. stores/redis/lua/modes.lua mirrors this table. */
import type { Mode } from "../core/charge.ts";

/** How a charge changes its bucket. */
export type Action = "add" | "subtract" | "clear" | "hold" | "settle";

/** The rules of one mode. */
export interface ModeRules {
  /** Whether the charge denies its group if its cost does not fit. */
  readonly asks: boolean;
  /** Applied if the group is admitted. Absent: nothing is changed. */
  readonly apply?: Action;
  /** Applied if the group is denied by another charge. Absent: nothing is changed. */
  readonly applyIfDenied?: Action;
}

/** The rules of every mode. */
export const MODES: Readonly<Record<Mode, ModeRules>> = {
  take: { asks: true, apply: "add" },
  peek: { asks: true },
  refund: { asks: false, apply: "subtract" },
  reset: { asks: false, apply: "clear" },
  hold: { asks: true, apply: "hold" },
  settle: { asks: false, apply: "settle" },
  penalty: { asks: true, applyIfDenied: "add" },
};
