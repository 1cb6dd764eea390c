/**
 * Recognises a middleware that is called by another framework than the one it was imported for. All of them export the
 * name `rateLimit`, so that an editor may import the wrong one; without this the request would hang.
 */
import { optionError } from "../../core/errors.ts";

/** The subpath that a middleware is imported from. */
export type Server = "express" | "fastify" | "hono" | "fetch" | "node";

const USES: Readonly<Record<Server, string>> = {
  express: "app.use(rateLimit(options)) in Express",
  fastify: 'app.addHook("onRequest", rateLimit(options)) in Fastify',
  hono: "app.use(rateLimit(options)) in Hono",
  fetch: "rateLimit(options)(handler) with a handler from Request to Response",
  node: "createServer(rateLimit(options)(handler)) of node:http",
};

/** Arguments of any framework, as far as they tell which. */
// biome-ignore lint/suspicious/noExplicitAny: nothing is known of them
type Arguments = readonly any[];

/**
 * Fails a call with the arguments of another framework, or without a handler. The error goes where that framework takes
 * errors: it is thrown, or passed on where a throw would not be caught.
 */
export function refuseForeignCall(imported: Server, args: Arguments): void {
  const [first, response, next] = args;
  const caller = callerOf(args);
  const error = optionError("invalid-option", "rateLimit", expectedBy(imported, caller, args));
  const isPlugin = typeof first?.addHook === "function";
  // Express 4 does not catch rejections, and a plugin of Fastify that throws ends the process.
  if (typeof next === "function" && (caller === "express" || isPlugin)) {
    next(error);
    return;
  }
  // The error ends the process, unless somebody catches everything: then the client must not wait for ever.
  if (caller === "node" && !response.headersSent) {
    response.statusCode = 500;
    response.end();
  }
  throw error;
}

/** Which framework calls a function with these arguments. */
function callerOf([first, second, third]: Arguments): Server | undefined {
  if (first?.req?.raw !== undefined) return "hono";
  if (first?.raw !== undefined || typeof first?.addHook === "function") return "fastify";
  if (typeof first?.headers?.get === "function") return "fetch";
  if (typeof second?.setHeader === "function") return typeof third === "function" ? "express" : "node";
  return undefined;
}

function expectedBy(imported: Server, caller: Server | undefined, [first]: Arguments): string {
  const subpath = (server: Server): string => `"sluice/${server}"`;
  const own = `${subpath(imported)} is for ${USES[imported]}`;
  if (caller === imported) return USES[imported];
  if (caller !== undefined) return `an import from ${subpath(caller)}, for ${USES[caller]}; ${own}`;
  if (typeof first === "function") {
    return `an import from ${subpath("node")} or ${subpath("fetch")} to wrap a handler; ${own}`;
  }
  return `an import from the subpath of your framework (${Object.keys(USES).join(", ")}); ${own}`;
}
