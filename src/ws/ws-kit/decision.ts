/** The decisions of limiters of sluice and of ws-kit, as far as the ws-kit middleware uses them. */

/** The part of a decision that the middleware uses. */
export type WsKitDecision = { readonly allowed: true; readonly delayMs?: number } | WsKitDenied;

/** The part of a denial that the middleware uses. */
export interface WsKitDenied {
  readonly allowed: false;
  readonly remaining: number;
  readonly retryAfterMs: number | null;
  readonly unavailable?: true;
}
