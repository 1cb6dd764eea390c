/** What all servers of `Request` and `Response` have in common. */

import { isPromise, type MaybePromise } from "../core/maybe-promise.ts";
import { runsOnWorkers } from "../http/presets.ts";
import { type ResponseHead, type Told, tellFigures, tellRejection } from "../http/response.ts";
import { type Answer, withoutType } from "../http/too-many-requests.ts";
import type { Gate, Pass, Passage, Stop } from "./gate.ts";
import { lateResult, MAX_ON_LIMITED_MS, unusableResult } from "./on-limited.ts";
import type { Limited } from "./options.ts";
import { hasNodeBody } from "./preflight.ts";

/** What a denied request may be answered with in place of the problem document. */
export type OwnAnswer = Response | undefined | Promise<Response | undefined>;

/** The ways that a request can go. */
export interface FetchWays<Call extends readonly unknown[]> {
  /** It goes on, and is answered. */
  go(): Promise<Response> | Response;
  /** It could not be decided about. */
  fail(error: Error): Response;
  /** Has the figures told when the response is sent, where that is cheaper than changing it; says whether it will. */
  tell?(told: Told): boolean;
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
  ways: FetchWays<Call>,
): Promise<Response> | Response {
  const mishap = (error: unknown): Promise<Response> | Response => {
    const outcome = gate.mishap(error, call);
    if (outcome === "allow") return ways.go();
    return outcome instanceof Error ? ways.fail(outcome) : responseOf(outcome, ways);
  };
  const arrive = (passage: Passage<Call>): Promise<Response> | Response => {
    if (passage === undefined) return ways.go();
    if (passage.rejection) return reject(passage, ways, gate);
    const { delayMs, settle } = passage;
    const told = passage.told && !ways.tell?.(passage.told) ? passage.told : undefined;
    if (delayMs > 0 || settle) return letPass({ told, delayMs, settle }, request, ways);
    const response = ways.go();
    if (!told) return response;
    return isPromise(response) ? response.then((response) => withFigures(response, told)) : withFigures(response, told);
  };
  let passage: Passage<Call> | Promise<Passage<Call>>;
  try {
    passage = gate.enter(call);
  } catch (error) {
    return mishap(error);
  }
  return isPromise(passage) ? passage.then(arrive, mishap) : arrive(passage);
}

function reject<Call extends readonly unknown[]>(
  { rejection, limited }: Stop<Call>,
  ways: FetchWays<Call>,
  gate: Gate<Call>,
): Promise<Response> | Response {
  const { onLimited } = ways;
  if (!onLimited || !limited) return responseOf(rejection, ways);
  const failed = (error: unknown): Response => {
    gate.tellError("onLimited", error, limited.call);
    return responseOf(rejection, ways);
  };
  const answerWith = (own: Response | undefined): Response => {
    if (own === undefined) return responseOf(rejection, ways);
    if (typeof own?.headers?.forEach === "function") return withHeadOf(own, rejection, ways);
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
function withHeadOf(own: Response, rejection: Answer, { respond }: FetchWays<never>): Response {
  const { headers } = rejection;
  const status = own.status >= 400 ? own.status : rejection.status;
  const answer = respond?.(own.body, status) ?? new Response(own.body, { status });
  own.headers.forEach((value, name) => {
    if (name === "set-cookie") answer.headers.append(name, value);
    else answer.headers.set(name, value);
  });
  tellRejection(ofHeaders, answer.headers, withoutType(headers));
  return answer;
}

/** An answer as a response. */
export function responseOf(
  { status, headers, body }: Answer,
  { respond }: Pick<FetchWays<never>, "respond"> = {},
): Response {
  if (!respond) return new Response(body, { status, headers });
  const response = respond(body, status);
  tellRejection(ofHeaders, response.headers, headers);
  return response;
}

/** The long way, for a request that is held or may get its cost back. */
async function letPass<Call extends readonly unknown[]>(
  { told, delayMs, settle }: Pass,
  request: Request,
  ways: FetchWays<Call>,
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
    response = await ways.go();
  } catch (error) {
    await settle?.({ status: undefined, error, aborted: signal.aborted });
    throw error;
  }
  // Awaited, because a Worker is stopped when it has answered.
  const { aborted } = signal;
  await settle?.({ status: aborted ? undefined : response.status, error: ways.thrown?.(), aborted });
  return told ? withFigures(response, told) : response;
}

function withFigures(response: Response, told: Told): Response {
  try {
    tellFigures(ofHeaders, response.headers, response.status, told);
    return response;
  } catch {
    // What `fetch` gave can't be changed: a handler that passes it on is told of in a copy.
    const copy = new Response(response.body, response);
    tellFigures(ofHeaders, copy.headers, copy.status, told);
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
