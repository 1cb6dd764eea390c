/** What each mode of a charge does. stores/redis/lua/modes.lua mirrors this table. */
import type { Mode } from "../core/charge.ts";

/** How a charge changes its bucket. */
export type Action = "add" | "subtract" | "clear";

/** What one mode does. */
export interface ModeRules {
  /** Whether the charge denies its group if its cost does not fit. */
  readonly asks: boolean;
  /** What it does if its group is admitted. Absent: nothing. */
  readonly apply?: Action;
  /** What it does if its group is denied by another charge. Absent: nothing. */
  readonly applyIfDenied?: Action;
}

/** The rules of every mode. */
export const MODES: Readonly<Record<Mode, ModeRules>> = {
  take: { asks: true, apply: "add" },
  peek: { asks: true },
  refund: { asks: false, apply: "subtract" },
  reset: { asks: false, apply: "clear" },
  penalty: { asks: true, applyIfDenied: "add" },
};
