/** The decisions of limiters of sluice and of ws-kit, as far as the ws-kit middleware uses them. */

/** The part of a decision that the middleware uses. */
export type WsKitDecision =
  | { readonly allowed: true; readonly remaining?: number; readonly delayMs?: number }
  | WsKitDenied;

/** The part of a denial that the middleware uses. */
export interface WsKitDenied {
  /** The cost does not fit. */
  readonly allowed: false;
  /** Cost that is left. */
  readonly remaining: number;
  /** Milliseconds until the cost fits; `null` if it never can. */
  readonly retryAfterMs: number | null;
  /** Denied because the store is unavailable. */
  readonly unavailable?: true;
}

/** The same as `WsKitDecision`, under the name that ws-kit uses. @alias */
export type RateLimitDecision = WsKitDecision;
