/**
 * Detects a middleware that is called by another framework than the one it was imported for. Every subpath exports the
 * names `rateLimit` and `idempotent`, so an editor may import the wrong one; without this check the request would hang.
 */
import { SluiceError } from "../../base/errors.ts";
import { emitWarningOnce } from "../../base/warnings.ts";

/** The subpath that a middleware is imported from. */
export type Server =
  | "express"
  | "fastify"
  | "hono"
  | "koa"
  | "h3"
  | "sveltekit"
  | "react-router"
  | "netlify"
  | "next"
  | "trpc"
  | "fetch"
  | "node";

/** The name that a middleware is exported by. */
export type MiddlewareName = "rateLimit" | "limitRoute" | "idempotent";

const USAGE: Readonly<Record<Server, { caller: string; code: string }>> = {
  express: { caller: "Express", code: "app.use(rateLimit(options))" },
  fastify: { caller: "Fastify", code: 'app.addHook("onRequest", rateLimit(options))' },
  hono: { caller: "Hono", code: "app.use(rateLimit(options))" },
  koa: { caller: "Koa", code: "app.use(rateLimit(options))" },
  h3: { caller: "h3", code: "app.use(rateLimit(options))" },
  sveltekit: { caller: "SvelteKit", code: "export const handle = rateLimit(options)" },
  "react-router": { caller: "React Router", code: "export const middleware = [rateLimit(options)]" },
  netlify: { caller: "Netlify", code: "export default rateLimit(options)" },
  next: { caller: "Next.js", code: "export const proxy = rateLimit(options)" },
  trpc: { caller: "tRPC", code: "t.procedure.use(rateLimit(options))" },
  fetch: { caller: "a server of Request and Response", code: "rateLimit(options)(handler)" },
  node: { caller: "node:http", code: "createServer(rateLimit(options)(handler))" },
};

// biome-ignore lint/suspicious/noExplicitAny: the arguments of an unknown framework
type UnknownArgs = readonly any[];

/**
 * Fails a call with the arguments of another framework, or without a handler. The error is thrown, or passed to the
 * framework's callback where a thrown one would not be caught. On `node:http`, which has no error handler, the response
 * is a 500 and the error a process warning: a thrown one would end the process at its first request.
 */
export function rejectWrongFramework(imported: Server, args: UnknownArgs, name: MiddlewareName = "rateLimit"): void {
  const [first, response, next] = args;
  const caller = callerOf(args);
  const message = messageFor(imported, caller, args, name);
  const error = new SluiceError("invalid-option", message, { option: name, expected: usageOf(imported, name) });
  const isPlugin = typeof first?.addHook === "function";
  // Express 4 does not catch rejections, and a Fastify plugin that throws ends the process.
  if (typeof next === "function" && (caller === "express" || isPlugin)) {
    next(error);
    return;
  }
  if (caller !== "node") throw error;
  emitWarningOnce(message, "SLUICE_MISUSE", message);
  if (response.headersSent) return;
  response.statusCode = 500;
  response.end();
}

/** The framework that calls a function with these arguments. */
function callerOf([first, second, third]: UnknownArgs): Server | undefined {
  if (typeof first?.getRawInput === "function") return "trpc";
  if (first?.req?.raw !== undefined) return "hono";
  // A request of Express has `res` as well.
  if (first?.req !== undefined && typeof first.res?.setHeader === "function") return "koa";
  if (typeof first?.req?.headers?.get === "function") return "h3";
  if (typeof first?.resolve === "function" && first.event) return "sveltekit";
  if (typeof first?.request?.headers?.get === "function") return "react-router";
  if (first?.raw !== undefined || typeof first?.addHook === "function") return "fastify";
  if (typeof first?.headers?.get === "function") {
    if (first.nextUrl !== undefined) return "next";
    return typeof second?.next === "function" ? "netlify" : "fetch";
  }
  if (typeof second?.setHeader === "function") return typeof third === "function" ? "express" : "node";
  return undefined;
}

/** How a middleware is mounted. `idempotent` runs after the body parser, and in Next.js in route handlers only. */
function usageOf(server: Server, name: MiddlewareName): string {
  if (name === "rateLimit") return USAGE[server].code;
  if (server === "next") return `export const POST = ${name}(options)(handler)`;
  return USAGE[server].code.replace("rateLimit", name).replace("onRequest", "preHandler");
}

function messageFor(imported: Server, caller: Server | undefined, [first]: UnknownArgs, name: MiddlewareName): string {
  const subject = `${name} from "sluice/${imported}"`;
  const usage = `Use it as ${usageOf(imported, name)}.`;
  if (caller === imported) {
    const isUnwrapped = imported === "fetch" || imported === "node";
    return `${subject} was called ${isUnwrapped ? "without a handler" : "with the wrong arguments"}. ${usage}`;
  }
  if (caller !== undefined) {
    const { caller: framework } = USAGE[caller];
    if (caller === "trpc" && name === "idempotent")
      return `${subject} was called by tRPC, which has no responses to replay.`;
    return `${subject} was called by ${framework}. Import ${name} from "sluice/${caller}" and use it as ${usageOf(caller, name)}.`;
  }
  if (first === undefined && imported === "next" && name !== "rateLimit")
    return `${subject} was called without a handler. ${usage}`;
  if (typeof first === "function") {
    return `${subject} can't wrap a handler. ${usage} To wrap a handler, import ${name} from "sluice/node" or "sluice/fetch".`;
  }
  const subpaths = Object.keys(USAGE).join(", ");
  return `${subject} was called with unknown arguments. Import ${name} from the subpath of your framework (${subpaths}).`;
}
