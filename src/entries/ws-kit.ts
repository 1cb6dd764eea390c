/** `sluice/ws-kit`: middleware for the router of ws-kit. */
export {
  rateLimit,
  type WsKitContext,
  type WsKitDecision,
  type WsKitDenied,
  type WsKitLimiter,
  type WsKitOptions,
} from "../ws/ws-kit/ws-kit.ts";
