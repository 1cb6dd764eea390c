/**
 * Calls a middleware with the arguments that frameworks pass whose packages are installed in integration/ only, and
 * returns the error that the framework would receive. Requests and responses are real.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { listening, sendRequest } from "./servers.ts";

// biome-ignore lint/suspicious/noExplicitAny: the middleware is that of another framework
type Anything = any;

const next = async () => new Response("handled");
const request = () => new Request("https://example.com/");

async function errorOf(call: () => unknown): Promise<unknown> {
  try {
    await call();
    return undefined;
  } catch (error) {
    return error;
  }
}

/** The calls, by the subpath of the framework. */
export const FRAMEWORK_CALLS: Record<string, (middleware: Anything) => Promise<unknown>> = {
  async koa(middleware) {
    let error: unknown;
    const url = await listening(async (req: IncomingMessage, res: ServerResponse) => {
      error = await errorOf(() => middleware({ req, res, request: { req }, response: { res } }, next));
      res.end();
    });
    await sendRequest(url);
    return error;
  },
  h3(middleware) {
    const req = request();
    const event = { req, res: { headers: new Headers() }, url: new URL(req.url), context: {} };
    return errorOf(() => middleware(event, next));
  },
  sveltekit(middleware) {
    const event = { request: request(), url: new URL("https://example.com/"), getClientAddress: () => "203.0.113.7" };
    return errorOf(() => middleware({ event, resolve: next }));
  },
  "react-router": (middleware) => errorOf(() => middleware({ request: request(), params: {}, context: {} }, next)),
  netlify: (middleware) => errorOf(() => middleware(request(), { ip: "203.0.113.7", next })),
  next(middleware) {
    const nextRequest = Object.assign(request(), { nextUrl: new URL("https://example.com/") });
    return errorOf(() => middleware(nextRequest, { waitUntil() {} }));
  },
};
