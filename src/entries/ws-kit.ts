/** `sluice/ws-kit`: middleware for the router of ws-kit. */
export type { WsKitDecision, WsKitDenied } from "../ws/ws-kit/decision.ts";
export { rateLimit, type WsKitContext, type WsKitLimiter, type WsKitOptions } from "../ws/ws-kit/ws-kit.ts";
