/** Types of the bindings and of the runtime for the Workers in the docs. */
declare module "cloudflare:workers" {
  export const env: Env;
  export function waitUntil(promise: Promise<unknown>): void;

  /** The handlers of an object and the members of its base class. */
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

/** Objects that are called by `fetch`. */
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

/** A message that the runtime answers while an object hibernates. */
declare class WebSocketRequestResponsePair {
  constructor(request: string, response: string);
}

/** Members of WebSockets in Workers that browsers lack. */
interface WebSocket {
  send(message: string | ArrayBuffer | ArrayBufferView): void;
  serializeAttachment(attachment: unknown): void;
  // biome-ignore lint/suspicious/noExplicitAny: the application defines its type.
  deserializeAttachment(): any;
}
