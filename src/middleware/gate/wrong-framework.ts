/**
 * Detects a middleware that is called by another framework than the one it was imported for. Every subpath exports the
 * name `rateLimit`, so an editor may import the wrong one; without this check the request would hang.
 */
import { SluiceError } from "../../core/errors.ts";
import { emitProcessWarning } from "../../core/warnings.ts";

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
  | "fetch"
  | "node";

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
  fetch: { caller: "a server of Request and Response", code: "rateLimit(options)(handler)" },
  node: { caller: "node:http", code: "createServer(rateLimit(options)(handler))" },
};

// biome-ignore lint/suspicious/noExplicitAny: the arguments of an unknown framework
type UnknownArgs = readonly any[];

/** Messages of process warnings that were emitted, to emit each once. There are at most as many as pairs of servers. */
const warned = new Set<string>();

/**
 * Fails a call with the arguments of another framework, or without a handler. The error is thrown, or passed to the
 * framework's callback where a thrown one would not be caught. On `node:http`, which has no error handler, the response
 * is a 500 and the error a process warning: a thrown one would end the process at its first request.
 */
export function rejectWrongFramework(imported: Server, args: UnknownArgs): void {
  const [first, response, next] = args;
  const caller = callerOf(args);
  const message = messageFor(imported, caller, args);
  const error = new SluiceError("invalid-option", message, { option: "rateLimit", expected: USAGE[imported].code });
  const isPlugin = typeof first?.addHook === "function";
  // Express 4 does not catch rejections, and a Fastify plugin that throws ends the process.
  if (typeof next === "function" && (caller === "express" || isPlugin)) {
    next(error);
    return;
  }
  if (caller !== "node") throw error;
  if (!warned.has(message)) {
    warned.add(message);
    emitProcessWarning("SLUICE_MISUSE", message);
  }
  if (response.headersSent) return;
  response.statusCode = 500;
  response.end();
}

/** The framework that calls a function with these arguments. */
function callerOf([first, second, third]: UnknownArgs): Server | undefined {
  if (first?.req?.raw !== undefined) return "hono";
  // A request of Express has a `res` too.
  if (typeof first?.res?.setHeader === "function" && first.req !== undefined) return "koa";
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

function messageFor(imported: Server, caller: Server | undefined, [first]: UnknownArgs): string {
  const subject = `rateLimit from "sluice/${imported}"`;
  const usage = `Use it as ${USAGE[imported].code}.`;
  if (caller === imported) {
    const isUnwrapped = imported === "fetch" || imported === "node";
    return `${subject} was called ${isUnwrapped ? "without a handler" : "with the wrong arguments"}. ${usage}`;
  }
  if (caller !== undefined) {
    const { caller: name, code } = USAGE[caller];
    return `${subject} was called by ${name}. Import rateLimit from "sluice/${caller}" and use it as ${code}.`;
  }
  if (typeof first === "function") {
    return `${subject} can't wrap a handler. ${usage} To wrap a handler, import rateLimit from "sluice/node" or "sluice/fetch".`;
  }
  const subpaths = Object.keys(USAGE).join(", ");
  return `${subject} was called with unknown arguments. Import rateLimit from the subpath of your framework (${subpaths}).`;
}
