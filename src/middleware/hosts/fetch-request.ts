/** Reads what the gate needs from a `Request` and from the objects that its runtime passes with it. */
import type { MaybePromise } from "../../base/maybe-promise.ts";
import { runsOnWorkers } from "../../http/identity/presets.ts";
import { hasNodeBody } from "../gate/preflight.ts";

/** The objects that runtimes pass to a handler besides the request, with the members that contain the peer. */
interface Environment {
  /** Deno. */
  readonly remoteAddr?: { readonly hostname?: string };
  /** Bun: the server object. */
  requestIP?(request: Request): { readonly address: string } | null;
  /** Bun: the server object inside of an environment, as Hono passes it. */
  readonly server?: Environment;
  /** Node, with @hono/node-server. */
  readonly incoming?: { readonly socket?: { readonly remoteAddress?: string } } & Parameters<typeof hasNodeBody>[0];
}

/** The IP address at the other end of the socket, from the objects that the runtime passes to a handler. */
export function peerOf(request: Request, environment: unknown): string | undefined {
  if (typeof environment !== "object" || environment === null) return undefined;
  const { remoteAddr, incoming, server } = environment as Environment;
  if (incoming) return incoming.socket?.remoteAddress;
  if (remoteAddr) return remoteAddr.hostname;
  const bun = (server ?? environment) as Environment;
  return typeof bun.requestIP === "function" ? bun.requestIP(request)?.address : undefined;
}

/**
 * Whether a request has a body. @hono/node-server, Deno and edge-runtime attach a stream to every OPTIONS request, empty
 * or not; with @hono/node-server, the Node request is checked instead.
 */
export function hasBody(request: Request, environment: unknown): MaybePromise<boolean> {
  const { incoming } = (environment ?? {}) as Environment;
  if (incoming?.headers) return hasNodeBody(incoming);
  if (request.body === null) return false;
  const { headers } = request;
  if (headers.has("transfer-encoding") || Number(headers.get("content-length") ?? 0) !== 0) return true;
  // HTTP/2 requires no header for a body.
  return hasData(request);
}

/** Reads a clone of the body up to its first byte. */
async function hasData(request: Request): Promise<boolean> {
  try {
    const reader = (request.clone().body as ReadableStream<Uint8Array>).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return false;
      if (value.byteLength === 0) continue;
      reader.cancel().catch(() => {});
      return true;
    }
  } catch {
    // The body was read before, or the client has disconnected.
    return true;
  }
}

/** Path and query of a request, as they are in its URL. */
export function targetOf({ url }: Request): string {
  const path = url.indexOf("/", url.indexOf("//") + 2);
  const fragment = url.indexOf("#");
  return path < 0 ? "/" : url.slice(path, fragment < 0 ? undefined : fragment);
}

/** The host in the URL of a request. Its header `host` may be that of a machine behind the runtime. */
export function hostOf({ url }: Request): string {
  return new URL(url).host;
}

/** Whether this runtime exposes no socket addresses. */
export function isPeerless(): boolean {
  return runsOnWorkers() || "EdgeRuntime" in globalThis || "Netlify" in globalThis;
}
