/** `sluice/ws`: the WebSocket guard, for the ws package and for servers without a subpath of their own. */
export type { AddressOptions, AdmissionOptions, AdmissionResult } from "../ws/engine/admission.ts";
export type { Connection, ConnectionState } from "../ws/engine/connection.ts";
export type { BucketState } from "../ws/engine/connection-bucket.ts";
export { createGuard, type DataOf, type Guard, type GuardOptions } from "../ws/engine/create-guard.ts";
export type { Frame, HandleFrame, Ingress } from "../ws/engine/ingress.ts";
export { jsonType } from "../ws/engine/json-type.ts";
export {
  type KeyContext,
  keyPerUser,
  keyPerUserOrIpPerType,
  keyPerUserPerType,
  perUserKey,
} from "../ws/engine/keys.ts";
export type { FrameLimit, FrameOptions } from "../ws/engine/options.ts";
export type { Peer } from "../ws/engine/peer.ts";
export {
  type CloseCodes,
  type EncodeNotice,
  type ExceededAction,
  errorEnvelope,
  jsonRpcError,
  type LimitExceeded,
  type LimitType,
  type Notice,
} from "../ws/engine/replies.ts";
export type { RawSocket } from "../ws/engine/upgrade.ts";
export {
  guardWs,
  type WsFrame,
  type WsGuard,
  type WsGuardOptions,
  type WsRequest,
  type WsServer,
} from "../ws/servers/ws.ts";
export type { WsSocket } from "../ws/servers/ws-peer.ts";
