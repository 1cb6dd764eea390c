/** `sluice/abuse`: lists, bot signals, penalties, traps and challenges. */
export { type Abuse, abuse } from "../abuse/abuse.ts";
export type { Challenge } from "../abuse/challenge/challenge-types.ts";
export type { List } from "../abuse/lists/list.ts";
export type { AbuseOptions, BlockStatus, ListOrFunction, PenaltyOptions, TarpitOptions } from "../abuse/options.ts";
export type { Bot, RequestSignal, Signal, SignalResult } from "../abuse/signals.ts";
