/** `rateLimit` and `idempotent` for Fastify 5: hooks for an instance, a scope or a route, and a plugin with limits per route. */
import type {
  FastifyInstance,
  FastifyPluginCallback,
  FastifyReply,
  FastifyRequest,
  HookHandlerDoneFunction,
} from "fastify";
import { optionError, SluiceError } from "../base/errors.ts";
import { decisionOf } from "./gate/decisions.ts";
import { type Gate, openGate } from "./gate/gate.ts";
import type { RateLimitOptions, RequestDecision, RequiredFacts } from "./gate/options.ts";
import { hasNodeBody } from "./gate/preflight.ts";
import type { RequestReader } from "./gate/request-reader.ts";
import { type AppOptions, routeLimits } from "./gate/route-limits.ts";
import { type MiddlewareName, rejectWrongFramework } from "./gate/wrong-framework.ts";
import { fastifyResponder } from "./hosts/fastify-reply.ts";
import { enterOnNode, headerOf, type Responder } from "./hosts/node.ts";
import { readNodeBody } from "./hosts/request-body.ts";
import { idempotencyOf, type RequestIdempotency } from "./idempotency/current.ts";
import { openIdempotency } from "./idempotency/gate.ts";
import type { IdempotencyOptions } from "./idempotency/options.ts";
import { closeSignal, parsedPayload } from "./idempotency/payload.ts";

/** The arguments that callbacks receive. */
export type FastifyArgs = readonly [request: FastifyRequest, reply: FastifyReply];

/** The options of `rateLimit`. `onLimited` returns the body or sends a reply; status and headers are already set. */
export type FastifyRateLimitOptions<F extends string = string> = RateLimitOptions<FastifyArgs, unknown, F>;

/** The options of `idempotent`. */
export type FastifyIdempotencyOptions = IdempotencyOptions<FastifyArgs>;

/** A hook for `onRequest`, `preValidation` and `preHandler`. */
export type FastifyRateLimitHook = (
  request: FastifyRequest,
  reply: FastifyReply,
  done: HookHandlerDoneFunction,
) => void;

/** The options of `rateLimitPlugin`. */
export type FastifyRateLimitPluginOptions<F extends string = string> = AppOptions<FastifyArgs, unknown, F> & {
  /** The hook that limits. `"preHandler"` runs after the body was parsed. Default: `"onRequest"`. */
  hook?: (typeof HOOKS)[number];
};

declare module "fastify" {
  interface FastifyContextConfig {
    /** Options for this route in place of those of `rateLimitPlugin`; `false` for no limit. */
    rateLimit?: FastifyRateLimitOptions | boolean;
  }
  interface FastifyInstance {
    /** Creates a hook for a route, which counts in addition: `{ preHandler: app.sluice({ policy: "5/m" }) }`. */
    sluice(options?: FastifyRateLimitOptions): FastifyRateLimitHook;
  }
}

const reader: RequestReader<FastifyArgs> = {
  method: (args) => args[0].raw.method ?? "",
  // As the router reads it, after `rewriteUrl`.
  path: (args) => args[0].raw.url ?? "",
  header: (args, name) => headerOf(args[0].raw, name),
  peer: (args) => args[0].raw.socket.remoteAddress,
  hasBody: (args) => hasNodeBody(args[0].raw),
  body: (args, maxBytes) => readNodeBody(args[0].raw, args[0].body, maxBytes),
};

/** Creates a hook that limits the routes it is added to: `app.addHook("onRequest", rateLimit({ policy: "100/m" }))`. */
export function rateLimit<F extends string = never>(
  options: FastifyRateLimitOptions<F> & RequiredFacts<F>,
): FastifyRateLimitHook {
  return hookFor(openGate<FastifyArgs, unknown>(options as FastifyRateLimitOptions, reader), options.onLimited);
}

/**
 * Creates a hook that runs requests with an `Idempotency-Key` once, and replays their responses to retries:
 * `app.addHook("preHandler", idempotent({ store, scope }))`. Add it before a `rateLimit` that is a `preHandler` as well.
 */
export function idempotent(options: FastifyIdempotencyOptions): FastifyRateLimitHook {
  const gate = openIdempotency<FastifyArgs>(options, {
    ...reader,
    payload: (args, maxBytes) => parsedPayload(args[0].raw, args[0].body, maxBytes),
    signal: (args) => closeSignal(args[1].raw),
  });
  return hookFor(gate, undefined, "idempotent");
}

function hookFor(
  gate: Gate<FastifyArgs>,
  onLimited: Responder<FastifyArgs>["onLimited"],
  name?: MiddlewareName,
): FastifyRateLimitHook {
  return (request, reply, done) => {
    if (typeof done !== "function" || !request.raw || !reply.raw) {
      return rejectWrongFramework("fastify", [request, reply, done], name);
    }
    const responderFor = (): Responder<FastifyArgs> => ({
      ...fastifyResponder(reply, onLimited),
      fail: (error) => done(error instanceof SluiceError ? withoutDetails(error) : error),
    });
    enterOnNode({ gate, args: [request, reply], response: reply.raw, next: done, responderFor });
  };
}

const HOOKS = ["onRequest", "preValidation", "preHandler"] as const;

/**
 * A plugin that limits all routes of the scope that it is registered in, and what is not found:
 * `app.register(rateLimitPlugin, { policy: "100/m" })`. A route has options of its own, or none, in its config:
 * `{ config: { rateLimit: { policy: "5/m" } } }`.
 */
export const rateLimitPlugin: FastifyPluginCallback<FastifyRateLimitPluginOptions> = /* @__PURE__ */ Object.assign(
  registerPlugin,
  // What fastify-plugin sets: the plugin belongs to the scope that registers it.
  {
    [Symbol.for("skip-override")]: true,
    [Symbol.for("fastify.display-name")]: "sluice",
    [Symbol.for("plugin-meta")]: { name: "sluice", fastify: "5.x" },
  },
);

function registerPlugin(
  app: FastifyInstance,
  given: FastifyRateLimitPluginOptions,
  done: (error?: Error) => void,
): void {
  if (typeof app?.hasDecorator !== "function") {
    rejectHook(done);
    return;
  }
  const { hook = "onRequest", ...options } = given;
  if (app.hasDecorator("sluice")) {
    const message =
      'rateLimitPlugin is already registered in this scope or one around it. For further limits, set config.rateLimit of a route, or add a hook: app.addHook("onRequest", app.sluice(options)).';
    done(new SluiceError("invalid-option", message, { option: "rateLimitPlugin", expected: "one plugin" }));
    return;
  }
  try {
    if (!HOOKS.includes(hook)) throw optionError("invalid-option", "hook", HOOKS.join(", "), hook);
    // Fastify passes these to every plugin.
    const { prefix: _, logLevel: __, logSerializers: ___, ...own } = options as Record<string, unknown>;
    const limitOf = routeLimits<FastifyArgs, unknown, FastifyRateLimitHook>(own, rateLimit);
    app.decorate("sluice", (options = {}) => limitOf(options) as FastifyRateLimitHook);
    // Throws for wrong options when a route is added, and not when it is requested.
    app.addHook("onRoute", ({ config }) => void limitOf(config?.rateLimit));
    app.addHook(hook, (request: FastifyRequest, reply: FastifyReply, next: HookHandlerDoneFunction) => {
      const limit = limitOf(request.routeOptions.config?.rateLimit);
      if (limit) limit(request, reply, next);
      else next();
    });
    done();
  } catch (error) {
    done(error as Error);
  }
}

/** Fails a call of the plugin as a hook, with a request in place of an app. */
function rejectHook(done: unknown): void {
  const expected = "app.register(rateLimitPlugin, options)";
  const message = `rateLimitPlugin is a plugin, and was called as a hook. Use ${expected}, or app.addHook("onRequest", rateLimit(options)).`;
  const error = new SluiceError("invalid-option", message, { option: "rateLimitPlugin", expected });
  if (typeof done !== "function") throw error;
  done(error);
}

/**
 * Returns the decision of the last `rateLimit` hook that the request passed; `undefined` if none has counted it. In
 * shadow mode the decision may be a denied one.
 */
export function getRateLimit(request: FastifyRequest): RequestDecision | undefined {
  return decisionOf(request);
}

/** Returns the key and the attempt of a request that runs under an idempotency key; `undefined` without one. */
export function getIdempotency(request: FastifyRequest): RequestIdempotency | undefined {
  return idempotencyOf(request);
}

/** Fastify's default error handler sends messages to clients, and an error may contain stored keys or server text. */
function withoutDetails(cause: SluiceError): Error {
  return Object.assign(new Error("The request could not be checked."), { statusCode: 500, cause });
}
