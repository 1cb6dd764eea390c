/** The rules of charge modes. stores/redis/lua/modes.lua mirrors this table and that of hold-modes.ts. */
import type { Mode } from "./compiled-policy.ts";

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

/** The rules of the modes that every bucket has. A charge in another mode brings its engine. */
export const MODES: Readonly<Record<Exclude<Mode, "hold" | "settle">, ModeRules>> &
  Readonly<Partial<Record<Mode, ModeRules>>> = {
  take: { asks: true, apply: "add" },
  peek: { asks: true },
  refund: { asks: false, apply: "subtract" },
  reset: { asks: false, apply: "clear" },
  penalty: { asks: true, applyIfDenied: "add" },
};
