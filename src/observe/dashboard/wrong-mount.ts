/** Fails a call of the dashboard with the arguments of a framework in place of a `Request`, and names the right call. */
import { SluiceError } from "../../base/errors.ts";
import { emitProcessWarning } from "../../base/warnings.ts";

const ON_NODE = 'app.use("/_sluice", toNodeHandler(dashboard(observer, options))), with toNodeHandler of sluice/node';
const ON_HONO = 'app.all("/_sluice/*", (context) => page(context.req.raw))';
const NODE_PAGE = "where page is toNodeHandler(dashboard(observer, options))";
const ON_KOA = `a middleware that sets context.respond = false and calls page(context.req, context.res), ${NODE_PAGE}`;
const ON_FASTIFY = `a hook "onRequest" that calls reply.hijack() and page(request.raw, reply.raw), ${NODE_PAGE}`;

/** What the first argument of a framework has: a context of Hono or Koa, a request of Fastify. */
interface MountArgs {
  readonly req?: { readonly raw?: unknown };
  readonly request?: unknown;
  readonly raw?: unknown;
}

/** Whether a value is a `Request`, of any runtime or polyfill. */
export function isRequest(value: unknown): value is Request {
  const { url, headers } = (value ?? {}) as Partial<Request>;
  return typeof url === "string" && typeof headers?.get === "function";
}

/** Throws, or passes the error on where a rejected promise would not be handled: in Express 4 and `node:http`. */
export function rejectMount(first: unknown, response: unknown, next: unknown): void {
  const error = wrongMount(first as MountArgs | undefined);
  const { setHeader, end } = (response ?? {}) as { setHeader?: unknown; end?: unknown };
  if (typeof setHeader !== "function") throw error;
  if (typeof next === "function") next(error);
  else {
    emitProcessWarning("SLUICE_MISUSE", error.message.replace(/ See \S+$/, ""));
    Object.assign(response as object, { statusCode: 500 });
    (end as () => void).call(response);
  }
}

function rightMount({ req, request, raw }: MountArgs): string {
  if (req?.raw) return ON_HONO;
  if (req && request) return ON_KOA;
  return raw ? ON_FASTIFY : ON_NODE;
}

function wrongMount(first: MountArgs | undefined): SluiceError {
  const expected = rightMount(first ?? {});
  const message = `dashboard() returns a handler of Request and Response, and was called with other arguments. Mount it as ${expected}.`;
  return new SluiceError("invalid-option", message, { option: "dashboard", expected, received: first });
}
