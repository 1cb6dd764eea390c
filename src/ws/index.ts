/** WebSockets: who may connect and what they may send, on every server. */
export type { AddressOptions, Admission, AdmissionOptions } from "./admission.ts";
export {
  type CloseCodes,
  type EncodeNotice,
  type ExceededAction,
  errorEnvelope,
  jsonRpcError,
  type LimitExceeded,
  type LimitType,
  type Notice,
} from "./answers.ts";
export { type BunFrame, type BunGuard, type BunHandlers, type BunServer, type BunSocket, guardBun } from "./bun.ts";
export type { Connection, ConnectionState, HandleFrame } from "./connection.ts";
export { type DenoFrame, type DenoGuard, type DenoHandlers, guardDeno } from "./deno.ts";
export {
  type DurableContext,
  type DurableFrame,
  type DurableObjectGuard,
  type DurableSocket,
  guardDurableObject,
} from "./durable-object.ts";
export { createGuard, type DataOf, type Guard, type GuardOptions } from "./guard.ts";
export type { Frame, Ingress } from "./ingress.ts";
export { jsonType } from "./json-type.ts";
export {
  type KeyContext,
  keyPerUser,
  keyPerUserOrIpPerType,
  keyPerUserPerType,
  perUserKey,
} from "./keys.ts";
export type { FrameLimit, FrameOptions } from "./options.ts";
export type { BucketState } from "./own-bucket.ts";
export type { Peer } from "./peer.ts";
export {
  guardSocketIo,
  type SocketIoEvent,
  type SocketIoGuard,
  type SocketIoOptions,
  type SocketIoServer,
  type SocketIoSocket,
} from "./socket-io.ts";
export type { SocketIoRequest } from "./socket-io-door.ts";
export type { RawSocket } from "./upgrade.ts";
export {
  rateLimit,
  type WsKitContext,
  type WsKitDecision,
  type WsKitDenied,
  type WsKitLimiter,
  type WsKitOptions,
} from "./ws-kit.ts";
export {
  guardWs,
  type WsFrame,
  type WsGuard,
  type WsGuardOptions,
  type WsRequest,
  type WsServer,
  type WsSocket,
} from "./ws-server.ts";
