/** What Workers of the documentation find in their environment. */
declare module "cloudflare:workers" {
  export const env: Env;
  export function waitUntil(promise: Promise<unknown>): void;

  /** What an object may answer to, and has from its base. */
  export interface DurableObject<Env = unknown> {
    readonly ctx: DurableObjectState;
    fetch?(request: Request): Response | Promise<Response>;
    alarm?(): void | Promise<void>;
    webSocketMessage?(socket: WebSocket, frame: string | ArrayBuffer): void | Promise<void>;
    webSocketClose?(socket: WebSocket, code: number, reason: string, wasClean: boolean): void | Promise<void>;
    webSocketError?(socket: WebSocket, error: unknown): void | Promise<void>;
  }
}

interface Env {
  RATE_LIMITER: import("sluice/cloudflare").DurableObjectNamespaceLike;
  ROOM: RoomNamespace;
  KV: import("sluice/cloudflare").KVNamespaceLike;
  RL: import("sluice/cloudflare").RateLimitBinding;
}

/** Objects that are asked by `fetch`. */
interface RoomNamespace {
  idFromName(name: string): object;
  get(id: object): { fetch(request: Request): Promise<Response> };
}

/** The `ctx` of an object. */
interface DurableObjectState {
  readonly storage: { get<T>(key: string): Promise<T | undefined>; put(key: string, value: unknown): Promise<void> };
  blockConcurrencyWhile<T>(callback: () => Promise<T>): Promise<T>;
  acceptWebSocket(socket: WebSocket, tags?: string[]): void;
  getWebSockets(tag?: string): WebSocket[];
  getTags(socket: WebSocket): string[];
  setWebSocketAutoResponse(pair?: WebSocketRequestResponsePair): void;
}

/** A text that is answered while an object sleeps. */
declare class WebSocketRequestResponsePair {
  constructor(request: string, response: string);
}

/** What sockets of Workers have besides what those of browsers have. */
interface WebSocket {
  send(message: string | ArrayBuffer | ArrayBufferView): void;
  serializeAttachment(attachment: unknown): void;
  // biome-ignore lint/suspicious/noExplicitAny: it is what the application has put there.
  deserializeAttachment(): any;
}
