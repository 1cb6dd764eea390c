/** The rules of every mode, also of those of holds. stores/redis/lua/modes.lua mirrors this table. */
import type { Mode } from "../core/compiled-policy.ts";
import { MODES, type ModeRules } from "../core/modes.ts";

/** The rules of every mode. Made by a call that bundlers may remove: members of another object could have getters. */
export const ALL_MODES: Readonly<Record<Mode, ModeRules>> = /* @__PURE__ */ allModes();

function allModes(): Record<Mode, ModeRules> {
  const { take, peek, refund, reset, penalty } = MODES;
  const hold: ModeRules = { asks: true, apply: "hold" };
  const settle: ModeRules = { asks: false, apply: "settle" };
  return { take, peek, refund, reset, hold, settle, penalty };
}
