/** What all servers of `Request` and `Response` have in common. */

import { isPromise, type MaybePromise } from "../../core/maybe-promise.ts";
import { runsOnWorkers } from "../../http/identity/presets.ts";
import { type Answer, withoutType } from "../../http/rejection.ts";
import {
  addRateLimitHeaders,
  addRejectionHeaders,
  type PendingHeaders,
  type ResponseHead,
} from "../../http/response.ts";
import type { Gate, GatePass, GateReject, GateResult } from "../gate/gate.ts";
import { lateResult, MAX_ON_LIMITED_MS, unusableResult } from "../gate/on-limited.ts";
import type { Limited } from "../gate/options.ts";
import { hasNodeBody } from "../gate/preflight.ts";

/** What a denied request may be answered with in place of the problem document. */
export type OwnAnswer = Response | undefined | Promise<Response | undefined>;

/** How a request is continued or answered. */
export interface FetchResponder<Call extends readonly unknown[]> {
  /** It goes on, and is answered. */
  go(): Promise<Response> | Response;
  /** It could not be decided about. */
  fail(error: Error): Response;
  /** Adds the headers when the response is sent, where that is cheaper than changing it. Returns whether it will. */
  tell?(pendingHeaders: PendingHeaders): boolean;
  /** Makes an answer in place of the handler's, with the headers that were set for that before. */
  respond?(body: BodyInit | null, status: number): Response;
  /** What the handler threw, where the answer is made from that before it comes here. */
  thrown?(): unknown;
  readonly onLimited: ((limited: Limited<Call>) => OwnAnswer) | undefined;
}

/** Takes a request through the gate. It awaits only what is promised: every turn in between is felt by a fast server. */
export function enterOnFetch<Call extends readonly unknown[]>(
  gate: Gate<Call>,
  call: Call,
  request: Request,
  responder: FetchResponder<Call>,
): Promise<Response> | Response {
  const handleGateError = (error: unknown): Promise<Response> | Response => {
    const outcome = gate.handleError(error, call);
    if (outcome === "allow") return responder.go();
    return outcome instanceof Error ? responder.fail(outcome) : responseOf(outcome, responder);
  };
  const arrive = (result: GateResult<Call>): Promise<Response> | Response => {
    if (result === undefined) return responder.go();
    if (result.rejection) return reject(result, responder, gate);
    const { delayMs, settle } = result;
    const pendingHeaders =
      result.pendingHeaders && !responder.tell?.(result.pendingHeaders) ? result.pendingHeaders : undefined;
    if (delayMs > 0 || settle) return continueRequest({ pendingHeaders, delayMs, settle }, request, responder);
    const response = responder.go();
    if (!pendingHeaders) return response;
    return isPromise(response)
      ? response.then((response) => withFigures(response, pendingHeaders))
      : withFigures(response, pendingHeaders);
  };
  let result: GateResult<Call> | Promise<GateResult<Call>>;
  try {
    result = gate.enter(call);
  } catch (error) {
    return handleGateError(error);
  }
  return isPromise(result) ? result.then(arrive, handleGateError) : arrive(result);
}

function reject<Call extends readonly unknown[]>(
  { rejection, limited }: GateReject<Call>,
  responder: FetchResponder<Call>,
  gate: Gate<Call>,
): Promise<Response> | Response {
  const { onLimited } = responder;
  if (!onLimited || !limited) return responseOf(rejection, responder);
  const failed = (error: unknown): Response => {
    gate.tellError("onLimited", error, limited.call);
    return responseOf(rejection, responder);
  };
  const answerWith = (own: Response | undefined): Response => {
    if (own === undefined) return responseOf(rejection, responder);
    if (typeof own?.headers?.forEach === "function") return withHeadOf(own, rejection, responder);
    throw unusableResult("a Response, such as Response.json({ error })", own);
  };
  try {
    const own = onLimited(limited);
    return isPromise(own) ? inTime(own).then(answerWith).catch(failed) : answerWith(own);
  } catch (error) {
    return failed(error);
  }
}

/** Rejects if a response takes too long. */
function inTime<T>(own: PromiseLike<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout>;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(lateResult("resolve with a Response")), MAX_ON_LIMITED_MS);
  });
  return Promise.race([own, late]).finally(() => clearTimeout(timer));
}

/** The body of an answer under the head of another. Its status stays if it is that of an error. */
function withHeadOf(own: Response, rejection: Answer, { respond }: FetchResponder<never>): Response {
  const { headers } = rejection;
  const status = own.status >= 400 ? own.status : rejection.status;
  const answer = respond?.(own.body, status) ?? new Response(own.body, { status });
  own.headers.forEach((value, name) => {
    if (name === "set-cookie") answer.headers.append(name, value);
    else answer.headers.set(name, value);
  });
  addRejectionHeaders(ofHeaders, answer.headers, withoutType(headers));
  return answer;
}

/** An answer as a response. */
export function responseOf(
  { status, headers, body }: Answer,
  { respond }: Pick<FetchResponder<never>, "respond"> = {},
): Response {
  if (!respond) return new Response(body, { status, headers });
  const response = respond(body, status);
  addRejectionHeaders(ofHeaders, response.headers, headers);
  return response;
}

/** The long way, for a request that is held or may get its cost back. */
async function continueRequest<Call extends readonly unknown[]>(
  { pendingHeaders, delayMs, settle }: GatePass,
  request: Request,
  responder: FetchResponder<Call>,
): Promise<Response> {
  if (delayMs > 0 && !(await held(request, delayMs))) {
    await settle?.({ status: undefined, aborted: true });
    // Nobody reads it.
    return new Response(null, { status: 499 });
  }
  let response: Response;
  // Read before the handler runs: some servers create the signal on first use.
  const { signal } = request;
  try {
    response = await responder.go();
  } catch (error) {
    await settle?.({ status: undefined, error, aborted: signal.aborted });
    throw error;
  }
  // Awaited, because a Worker is stopped when it has answered.
  const { aborted } = signal;
  await settle?.({ status: aborted ? undefined : response.status, error: responder.thrown?.(), aborted });
  return pendingHeaders ? withFigures(response, pendingHeaders) : response;
}

function withFigures(response: Response, pendingHeaders: PendingHeaders): Response {
  try {
    addRateLimitHeaders(ofHeaders, response.headers, response.status, pendingHeaders);
    return response;
  } catch {
    // Responses of `fetch` are immutable: add the headers to a copy.
    const copy = new Response(response.body, response);
    addRateLimitHeaders(ofHeaders, copy.headers, copy.status, pendingHeaders);
    return copy;
  }
}

const ofHeaders: ResponseHead<Headers> = {
  get: (headers, name) => headers.get(name) ?? undefined,
  set: (headers, name, value) => headers.set(name, value),
  remove: (headers, name) => headers.delete(name),
};

/** Waits, unless the client leaves first; says whether it stayed. */
function held({ signal }: Request, delayMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const leave = (): void => {
      clearTimeout(timer);
      resolve(false);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", leave);
      resolve(true);
    }, delayMs);
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
  });
}

/** The objects that runtimes hand to a handler beside the request, as far as they tell the peer. */
interface Environment {
  /** Deno. */
  readonly remoteAddr?: { readonly hostname?: string };
  /** Bun: the server. */
  requestIP?(request: Request): { readonly address: string } | null;
  /** Bun, as some hand it on. */
  readonly server?: Environment;
  /** Node, behind @hono/node-server. */
  readonly incoming?: { readonly socket?: { readonly remoteAddress?: string } } & Parameters<typeof hasNodeBody>[0];
}

/** The address at the other end of the socket, from what the runtime hands to a handler. */
export function peerOf(request: Request, environment: unknown): string | undefined {
  if (typeof environment !== "object" || environment === null) return undefined;
  const { remoteAddr, incoming, server } = environment as Environment;
  if (incoming) return incoming.socket?.remoteAddress;
  if (remoteAddr) return remoteAddr.hostname;
  const bun = (server ?? environment) as Environment;
  return typeof bun.requestIP === "function" ? bun.requestIP(request)?.address : undefined;
}

/**
 * Whether a request has a body. Some servers give a stream to every OPTIONS request, empty or not: @hono/node-server,
 * whose request of Node is asked then, Deno and edge-runtime.
 */
export function hasBody(request: Request, environment: unknown): MaybePromise<boolean> {
  const { incoming } = (environment ?? {}) as Environment;
  if (incoming?.headers) return hasNodeBody(incoming);
  if (request.body === null) return false;
  const { headers } = request;
  if (headers.has("transfer-encoding") || Number(headers.get("content-length") ?? 0) !== 0) return true;
  // Over HTTP/2 no header has to say that there is a body.
  return hasData(request);
}

/** Reads a copy of the body up to its first byte. */
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
    // It was read before, or its client has left.
    return true;
  }
}

/** Whether this runtime has no sockets to tell of. */
export function isPeerless(): boolean {
  return runsOnWorkers() || "EdgeRuntime" in globalThis || "Netlify" in globalThis;
}
