/** Mounts the routes of the suite on servers without a framework: `node:http`, and handlers of `Request`. */
import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type RequestListener,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import {
  type FetchRateLimitOptions,
  getRateLimit as getFetchRateLimit,
  idempotent as idempotentFetch,
  rateLimit as limitFetch,
} from "sluice/fetch";
import {
  getRateLimit as getNodeRateLimit,
  idempotent as idempotentNode,
  rateLimit as limitNode,
  type NodeHandler,
  type NodeIdempotencyOptions,
  type NodeRateLimitOptions,
} from "sluice/node";
import type { GuardedRoute, PlainResponse, RouteKit, RunningServer } from "sluice/testing";
import { inOrder } from "./in-order.ts";

/** Returns the route of a path. */
function routeOf(routes: readonly GuardedRoute[], path: string): GuardedRoute {
  const route = routes.find((one) => path === one.path || path.startsWith(`${one.path}/`));
  if (!route) throw new Error(`no route for ${path}`);
  return route;
}

export const nodeKit: RouteKit = {
  header: ([request]: readonly [IncomingMessage], name) => request.headers[name] as string | undefined,
  respondWith([, response]: readonly [IncomingMessage, ServerResponse], text, status = response.statusCode) {
    response.statusCode = status;
    return response.end(text);
  },
};

/** A handler for `createServer`. */
export function nodeListener(
  routes: readonly GuardedRoute[],
  rateLimit: (options: NodeRateLimitOptions) => (handler: NodeHandler) => NodeHandler = limitNode,
  idempotent: (options: NodeIdempotencyOptions) => (handler: NodeHandler) => NodeHandler = idempotentNode,
): RequestListener {
  const listeners = new Map(
    routes.map((route) => {
      const handler: RequestListener = async (request, response) => {
        try {
          const { status, headers, body } = await route.handle(
            pathOf(request),
            once(response, "close"),
            getNodeRateLimit(request),
          );
          response.writeHead(status, headers as OutgoingHttpHeaders);
          if (typeof body === "string" || body instanceof Uint8Array) response.end(body);
          else Readable.fromWeb(body as never).pipe(response);
        } catch {
          response.writeHead(500).end();
        }
      };
      const limits = route.rateLimits.map((options) => rateLimit(options as NodeRateLimitOptions));
      const idempotents = route.idempotency ? [idempotent(route.idempotency)] : [];
      return [
        route,
        inOrder(route, idempotents, limits).reduceRight((inner, wrap) => wrap(inner), handler as NodeHandler),
      ] as const;
    }),
  );
  return (request, response) => {
    const route = routeOf(routes, pathOf(request));
    for (const [name, value] of Object.entries(route.before)) response.setHeader(name, value);
    listeners.get(route)?.(request, response);
  };
}

function pathOf(request: IncomingMessage): string {
  return new URL(request.url ?? "/", "http://localhost").pathname;
}

/** Starts a listener on a free port. */
export async function listen(listener: RequestListener): Promise<RunningServer> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

export const fetchKit: RouteKit = {
  header: ([request]: readonly [Request], name) => request.headers.get(name) ?? undefined,
  respondWith: (_call, text, status = 200) => new Response(text, { status }),
};

function headersOf(fields: GuardedRoute["before"] | PlainResponse["headers"]): Headers {
  const headers = new Headers();
  for (const [name, values] of Object.entries(fields)) {
    for (const value of [values].flat()) headers.append(name, value);
  }
  return headers;
}

/** Resolves when a signal is aborted. */
function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

type Handler = (request: Request, ...rest: unknown[]) => Promise<Response>;

/** A handler from `Request` to `Response`. */
export function fetchHandler(routes: readonly GuardedRoute[]): Handler {
  const handlers = new Map(
    routes.map((route) => {
      const handler = async (request: Request): Promise<Response> => {
        const { status, headers, body } = await route.handle(
          new URL(request.url).pathname,
          aborted(request.signal),
          getFetchRateLimit(request),
        );
        const empty = status === 204 || status === 304;
        return new Response(empty ? null : (body as BodyInit), {
          status,
          headers: headersOf({ ...route.before, ...headers }),
        });
      };
      const limits = route.rateLimits.map((options) => limitFetch(options as FetchRateLimitOptions));
      const idempotents = route.idempotency ? [idempotentFetch(route.idempotency)] : [];
      const wraps = inOrder(route, idempotents, limits as unknown as typeof idempotents);
      return [route, wraps.reduceRight((inner, wrap) => wrap(inner) as Handler, handler as Handler)] as const;
    }),
  );
  return async (request, ...rest) => {
    const route = routeOf(routes, new URL(request.url).pathname);
    try {
      return await (handlers.get(route) as Handler)(request, ...rest);
    } catch {
      return new Response(null, { status: 500 });
    }
  };
}

const UNREAD = "releases the slot of a client that disconnects while nobody reads its request";
const UNREAD_STREAM = "releases the slot of such a client also if its response has begun";

/** Of frameworks that pass only a `Request`. Node ends such a connection after its `requestTimeout`, 5 minutes. */
export const NODE_REQUEST_WITHOUT = {
  [UNREAD]: "Node does not see the disconnect, and a Request has no socket to read on from",
  [UNREAD_STREAM]: "Node does not see the disconnect, and a Request has no socket to read on from",
};

/** Of servers on Deno. */
export const DENO_WITHOUT = { [UNREAD]: "Deno.serve aborts no signal while the request is not read" };

/** A handler creates the response, so no header can be set on it before. */
export const FETCH_WITHOUT = {
  "exposes its fields to cross-origin scripts besides those of the application":
    "a response has no headers before it is created",
  "keeps headers of earlier middleware on an answer, without the validators":
    "a response has no headers before it is created",
  "sets a clearance on the response to a handler that throws":
    "a handler that throws has no response that rateLimit could change",
};
