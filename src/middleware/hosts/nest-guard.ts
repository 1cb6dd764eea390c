/** Runs the execution contexts of NestJS through the gate: requests to controllers, and fields of GraphQL queries. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type ExecutionContext, HttpException } from "@nestjs/common";
import type { FastifyReply } from "fastify";
import { SluiceError } from "../../base/errors.ts";
import { andThen } from "../../base/maybe-promise.ts";
import { emitProcessWarning } from "../../base/warnings.ts";
import type { Denied } from "../../core/decision.ts";
import { withoutContentType } from "../../http/rejection.ts";
import { addRejectionHeaders } from "../../http/response.ts";
import { type Gate, type GateResult, openGate } from "../gate/gate.ts";
import type { LimitedRequest, RateLimitOptions } from "../gate/options.ts";
import { hasNodeBody } from "../gate/preflight.ts";
import type { RequestReader } from "../gate/request-reader.ts";
import { openIdempotency } from "../idempotency/gate.ts";
import type { IdempotencyOptions } from "../idempotency/options.ts";
import { closeSignal, parsedPayload } from "../idempotency/payload.ts";
import { BatchHeaders } from "./batch-headers.ts";
import { fastifyResponder, replyHead } from "./fastify-reply.ts";
import { enterOnNode, headerOf, nodeResponder, type Responder } from "./node.ts";
import { asProblemDocument, responseHead } from "./node-head.ts";
import { readNodeBody } from "./request-body.ts";

/** The arguments that callbacks receive. Request and response are those of Express or Fastify. */
export type NestArgs = readonly [
  // biome-ignore lint/suspicious/noExplicitAny: as in Nest, which does not know the platform of an app
  request: any,
  // biome-ignore lint/suspicious/noExplicitAny: as above
  response: any,
  context: ExecutionContext,
];

/** Decides about an execution context. Resolves with `true` if it continues. */
export type GuardContext = (context: ExecutionContext) => Promise<boolean>;

/** The exception of a denied request: 429, or 503 if the store is unavailable. Its response is the problem document. */
export class RateLimitException extends HttpException {
  /** The denied decision; `undefined` if the request could not be checked, or is a CORS preflight. */
  readonly decision: Denied | undefined;
  /** The key of the limit that denied. */
  readonly key: string | undefined;
  /** The rule of the limit that denied, if there are rules. */
  readonly rule: string | undefined;

  constructor(
    response: string | object,
    status: number,
    limited?: Pick<LimitedRequest<NestArgs>, "decision" | "key" | "rule">,
  ) {
    super(response as Record<string, unknown>, status);
    const { detail } = response as { detail?: unknown };
    if (typeof detail === "string") this.message = detail;
    this.decision = limited?.decision;
    this.key = limited?.key;
    this.rule = limited?.rule;
  }
}

const reader: RequestReader<NestArgs> = {
  method: ([request]) => rawOf(request).method ?? "",
  // Not `url` of Express, from which it removes the path that a router is mounted at.
  path: ([request]) => (request.raw ? request.raw.url : (request.originalUrl ?? request.url)) ?? "",
  // Nest sends exceptions as JSON.
  header: ([request], name) => (name === "accept" ? undefined : headerOf(rawOf(request), name)),
  peer: ([request]) => rawOf(request).socket.remoteAddress,
  hasBody: ([request]) => hasNodeBody(rawOf(request)),
  body: ([request], maxBytes) => readNodeBody(rawOf(request), request.body, maxBytes),
  // Each field of a GraphQL query is counted, and all have the same request.
  repeatable: true,
};

/** Creates the function that runs HTTP contexts once per idempotency key. Others have no response of their own. */
export function idempotentContext(options: IdempotencyOptions<NestArgs>): GuardContext {
  const gate = openIdempotency<NestArgs>(options, {
    ...reader,
    payload: ([request], maxBytes) => parsedPayload(rawOf(request), request.body, maxBytes),
    signal: ([, response]) => closeSignal(response.raw ?? response),
  });
  return async (context) => {
    if (context.getType<string>() !== "http") return true;
    const http = context.switchToHttp();
    const args: NestArgs = [http.getRequest(), http.getResponse(), context];
    return enter(gate, args, (settle) => httpResponder(args, undefined, settle));
  };
}

/** Creates the function that decides about contexts by these options. */
export function guardContext(options: RateLimitOptions<NestArgs, unknown>): GuardContext {
  const gate = openGate<NestArgs, unknown>(options, reader);
  const fieldGate = gateOfFields(gate);
  const seen = new WeakSet<object>();
  let isWarned = false;
  return async (context) => {
    const type = context.getType<string>();
    if (type === "http") {
      const http = context.switchToHttp();
      const request = http.getRequest<object>();
      // Bound to the app and to the handler.
      if (seen.has(request)) return true;
      seen.add(request);
      const args: NestArgs = [request, http.getResponse(), context];
      return enter(gate, args, (settle) => httpResponder(args, options.onLimited, settle));
    }
    const [, , graphql, info] = context.getArgs<[unknown, unknown, GraphqlContext, GraphqlInfo]>();
    if (type !== "graphql" || info?.operation?.operation === "subscription") {
      if (!isWarned) emitProcessWarning("SLUICE_MISUSE", uncounted(type));
      isWarned = true;
      return true;
    }
    const request = graphql?.req ?? graphql?.request ?? graphql?.reply?.request;
    // A request of Express has its response.
    const response = graphql?.res ?? graphql?.reply ?? (request as { res?: object } | undefined)?.res;
    if (!request || !response) {
      const expected = "{ req, res }";
      const message = `The GraphQL context has no request and response. Return ${expected} from the option context of GraphQLModule.`;
      throw new SluiceError("invalid-option", message, { option: "context", expected, received: graphql });
    }
    // As above. Every field has an info of its own.
    if (seen.has(info ?? context)) return true;
    seen.add(info ?? context);
    const args: NestArgs = [request, response, context];
    return enter(fieldGate, args, (settle) => fieldResponder(args, settle));
  };
}

/** The context of GraphQL as Apollo and Mercurius create it. */
interface GraphqlContext {
  readonly req?: object;
  readonly request?: object;
  readonly res?: object;
  readonly reply?: { readonly request?: object };
}

interface GraphqlInfo {
  readonly operation?: { readonly operation?: string };
}

function uncounted(type: string): string {
  const what = type === "graphql" ? "GraphQL subscriptions" : `messages of the type "${type}"`;
  return `RateLimitGuard does not limit ${what}, which have no response. Add @SkipRateLimit() to their handlers, and limit sockets with "sluice/ws" or "sluice/socket.io".`;
}

/** The request of Node: Fastify wraps it. */
function rawOf(request: { raw?: IncomingMessage }): IncomingMessage {
  return request.raw ?? (request as IncomingMessage);
}

/** Ends a guard: `true` continues, an error rejects. A request whose response was sent is never settled. */
type Settle = (result: true | Error) => void;

function enter(
  gate: Gate<NestArgs>,
  args: NestArgs,
  responderFor: (settle: Settle) => Responder<NestArgs>,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const settle: Settle = (result) => (result === true ? resolve(true) : reject(result));
    const response: ServerResponse = args[1].raw ?? args[1];
    enterOnNode({ gate, args, response, next: () => settle(true), responderFor: () => responderFor(settle) });
  });
}

/** Rejects with exceptions, which the filters of the app turn into responses. */
function httpResponder(
  [, response]: NestArgs,
  onLimited: Responder<NestArgs>["onLimited"],
  settle: Settle,
): Responder<NestArgs> {
  const raw: ServerResponse = response.raw ?? response;
  const base: Omit<Responder<NestArgs>, "fail"> = response.raw
    ? fastifyResponder(response, onLimited)
    : nodeResponder(response, onLimited);
  let status = 0;
  return {
    ...base,
    fail: settle,
    head(given, headers) {
      status = given;
      // A filter may send HTML or another type.
      base.head(given, withoutContentType(headers));
    },
    send(body, limited) {
      // An answer is sent as it is.
      if (status === 0) return base.send(body);
      asProblemDocument(raw, body as string);
      settle(new RateLimitException(JSON.parse(body as string), status, limited));
    },
    sendCustom(custom, limited) {
      if (custom === undefined || custom === response) return "later";
      const own = (response as { statusCode: number }).statusCode;
      settle(new RateLimitException(custom as string | object, own < 400 ? status : own, limited));
      return "sent";
    },
  };
}

/** Rejects a field of a query. The response, which other fields share, gets the headers only. */
function fieldResponder([, response]: NestArgs, settle: Settle): Responder<NestArgs> {
  let status = 0;
  return {
    fail: settle,
    hasResponded: () => (response.raw ?? response).headersSent,
    head(given, headers) {
      status = given;
      const fields = withoutContentType(headers);
      if (response.raw) addRejectionHeaders(replyHead, response as FastifyReply, fields);
      else addRejectionHeaders(responseHead, response, fields);
    },
    answerHead: (given) => void (status = given),
    send(body, limited) {
      const exception = new RateLimitException(problemOf(body), status, limited);
      const code = status === 429 ? "TOO_MANY_REQUESTS" : "SERVICE_UNAVAILABLE";
      const { retryAfterMs = null, policy } = limited?.decision ?? {};
      // GraphQL sends these with the message.
      settle(Object.assign(exception, { extensions: { code, retryAfterMs, policy, rule: limited?.rule } }));
    },
    sendCustom: () => "unusable",
    onLimited: undefined,
  };
}

function problemOf(body: unknown): string | object {
  try {
    return JSON.parse(String(body));
  } catch {
    return String(body);
  }
}

/** A gate whose header fields are added once to the response that fields of a query share. */
function gateOfFields(gate: Gate<NestArgs>): Gate<NestArgs> {
  const headers = new BatchHeaders();
  const withOneHead = (result: GateResult<NestArgs>, [, response]: NestArgs): GateResult<NestArgs> => {
    if (!result || result.rejection || result.answer || result.failure || !result.pendingHeaders) return result;
    return { ...result, pendingHeaders: headers.add(response, result.pendingHeaders) };
  };
  return {
    enter: (args) => andThen(gate.enter(args), (result) => withOneHead(result, args)) as ReturnType<typeof gate.enter>,
    handleError: (error, args) => gate.handleError(error, args),
    callbackFailed: (callback, error, args) => gate.callbackFailed(callback, error, args),
    requestFailed: (error) => gate.requestFailed(error),
  };
}
