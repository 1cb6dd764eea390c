/** `sluice/abuse`: lists, signals, penalties and challenges against abusive clients. */
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
export type { AbuseReports } from "../abuse/reports.ts";
