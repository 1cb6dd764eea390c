/** `sluice/abuse`: lists of clients, and signals about bots. */
export { ipList } from "../abuse/lists/ip-list.ts";
export { keyList } from "../abuse/lists/key-list.ts";
export type { List } from "../abuse/lists/list.ts";
export type { ListOptions } from "../abuse/lists/list-options.ts";
export { cloudflareBots } from "../abuse/signals/cloudflare-bots.ts";
export { type HeaderSignalOptions, headerSignal } from "../abuse/signals/header-signal.ts";
export { userAgentBots } from "../abuse/signals/user-agent-bots.ts";
export type { Bot, RequestSignal, Signal, SignalResult } from "../abuse/signals.ts";
