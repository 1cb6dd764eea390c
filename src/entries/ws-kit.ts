/** `sluice/ws-kit`: middleware for the router of ws-kit, and its keys. */
export {
  type KeyContext,
  keyPerUser,
  keyPerUserOrIpPerType,
  keyPerUserPerType,
  perUserKey,
} from "../ws/engine/keys.ts";
export type { CloseCodes, ExceededAction, LimitExceeded, LimitType } from "../ws/engine/replies.ts";
export type { RateLimitDecision, WsKitDecision, WsKitDenied } from "../ws/ws-kit/decision.ts";
export type { ExceededOptions } from "../ws/ws-kit/exceeded.ts";
export {
  type IngressContext,
  rateLimit,
  type WsKitContext,
  type WsKitLimiter,
  type WsKitOptions,
  type WsKitSocket,
} from "../ws/ws-kit/ws-kit.ts";
