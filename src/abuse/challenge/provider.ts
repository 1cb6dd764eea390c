/** The contract of challenges with the services that verify solutions. */

/** Verifies solutions of challenges. Made by `turnstile`, `hcaptcha` and `recaptcha`, or by the application. */
export interface ChallengeProvider {
  /** Its name in responses and events. */
  readonly name: string;
  /** The public key of the widget. */
  readonly siteKey: string;
  /** URL of the widget script, without `onload`. */
  readonly scriptUrl: string;
  /** Origin of the widget's frame, for the page's Content-Security-Policy. */
  readonly frameOrigin: string;
  /** Form field that has the token. */
  readonly tokenField: string;
  /** The action that tokens must be made for. Default: `"sluice"`. */
  readonly action?: string;
  /** How the built-in page uses the widget script. Default: the global object has the provider's name. */
  readonly widget?: ChallengeWidget;
  /** Sources that the page's Content-Security-Policy allows in addition, by directive. */
  readonly csp?: Readonly<Record<string, readonly string[]>>;
  /**
   * Verifies a token. Rejects if the provider can't verify any: it is unavailable, or its secret is wrong. Such requests
   * get a 429, and a `provider-down` event is emitted.
   */
  verify(token: string, expected: ExpectedToken): Promise<Verification>;
}

/** How the built-in page uses the widget script. */
export interface ChallengeWidget {
  /** Name of the global object that the script defines. */
  readonly object: string;
  /** Whether the object's `execute` returns a token, instead of `render`, which shows a widget. Default: `false`. */
  readonly execute?: boolean;
}

/** Where a token must come from. */
export interface ExpectedToken {
  /** IP address of the client; `""` if it is unknown. */
  readonly ip: string;
  /** The hostname in the request's `Host` header, in lower case. The client chooses it. */
  readonly hostname: string;
  /** The action that the token must be made for. */
  readonly action: string;
}

/** The result of a verification. */
export interface Verification {
  /** Whether the token is valid. */
  readonly ok: boolean;
  /** Why the token was refused: codes of the provider, or `hostname-mismatch`, `action-mismatch`, `token-too-old`, `low-score`. */
  readonly codes: readonly string[];
  /** From 0 (a bot) to 1, of providers that report it. */
  readonly score?: number;
}

/** The action of tokens, unless the provider has another. */
export const DEFAULT_ACTION = "sluice";
