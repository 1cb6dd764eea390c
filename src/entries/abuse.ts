/** `sluice/abuse`: lists, bot signals, penalties, traps and challenges. */
export { type Abuse, abuse } from "../abuse/abuse.ts";
export { type ChallengeOptions, challenge } from "../abuse/challenge/challenge.ts";
export type { Challenge, ChallengeHandler, ChallengeRequest, Clearance } from "../abuse/challenge/challenge-types.ts";
export type { BindTo } from "../abuse/challenge/clearance.ts";
export type { ChallengeMessages, TranslatedMessages } from "../abuse/challenge/messages.ts";
export type { ChallengeContext } from "../abuse/challenge/page.ts";
export type { ChallengeProvider, ChallengeWidget, ExpectedToken, Verification } from "../abuse/challenge/provider.ts";
export {
  type HcaptchaOptions,
  hcaptcha,
  type ProviderOptions,
  type RecaptchaOptions,
  recaptcha,
  turnstile,
} from "../abuse/challenge/providers.ts";
export { ipList } from "../abuse/lists/ip-list.ts";
export { keyList } from "../abuse/lists/key-list.ts";
export type { List } from "../abuse/lists/list.ts";
export type { ListOptions } from "../abuse/lists/list-options.ts";
export type { AbuseOptions, BlockStatus, ListOrFunction, PenaltyOptions, TarpitOptions } from "../abuse/options.ts";
export type { AbuseReports } from "../abuse/reports.ts";
export type { BotScoreOptions } from "../abuse/signals/bot-score.ts";
export { cloudflareBots } from "../abuse/signals/cloudflare-bots.ts";
export { type HeaderSignalOptions, headerSignal } from "../abuse/signals/header-signal.ts";
export { userAgentBots } from "../abuse/signals/user-agent-bots.ts";
export type { Bot, RequestSignal, Signal, SignalResult } from "../abuse/signals.ts";
