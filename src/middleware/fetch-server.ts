/** What all servers of `Request` and `Response` have in common. */
import type { HeaderFields } from "../http/headers.ts";
import { runsOnWorkers } from "../http/presets.ts";
import { type ResponseHead, type Told, tellFigures, tellRejection } from "../http/response.ts";
import { type Answer, withoutType } from "../http/too-many-requests.ts";
import { type Gate, isPromise, type Pass, type Passage } from "./gate.ts";
import type { Decided } from "./options.ts";

/** What a denied request may be answered with in place of the problem document. */
export type OwnAnswer = Response | undefined | Promise<Response | undefined>;

/** The ways that a request can go. */
export interface FetchWays<Call extends readonly unknown[]> {
  /** It goes on, and is answered. */
  go(): Promise<Response> | Response;
  /** It could not be decided about. */
  fail(error: unknown): Response;
  /** Takes an answer in place of the handler's, with the headers that were set for it before. */
  adopt?(response: Response): Response;
  /** What the handler threw, where the answer is made from that before it comes here. */
  thrown?(): unknown;
  readonly onLimited: ((limited: Decided<Call>) => OwnAnswer) | undefined;
}

/** Takes a request through the gate. */
export async function enterOnFetch<Call extends readonly unknown[]>(
  gate: Gate<Call>,
  call: Call,
  request: Request,
  ways: FetchWays<Call>,
): Promise<Response> {
  let passage: Passage<Call>;
  try {
    const entered = gate.enter(call);
    passage = isPromise(entered) ? await entered : entered;
  } catch (error) {
    const answer = gate.mishap(error, call);
    if (answer === undefined) return ways.fail(error);
    return answer === "allow" ? ways.go() : responseOf(answer, ways);
  }
  if (passage === undefined) return ways.go();
  if (!passage.rejection) return letPass(passage, request, ways);
  const { rejection, limited } = passage;
  const own = await ways.onLimited?.(limited);
  if (!own) return responseOf(rejection, ways);
  const { status, headers } = rejection;
  return withHead(new Response(own.body, { status, headers: own.headers }), withoutType(headers), ways);
}

/** An answer as a response. */
export function responseOf({ status, headers, body }: Answer, ways?: Pick<FetchWays<never>, "adopt">): Response {
  return withHead(new Response(body, { status }), headers, ways);
}

function withHead(
  response: Response,
  headers: HeaderFields,
  ways: Pick<FetchWays<never>, "adopt"> | undefined,
): Response {
  const answer = ways?.adopt?.(response) ?? response;
  tellRejection(ofHeaders, answer.headers, headers);
  return answer;
}

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
  try {
    response = await ways.go();
  } catch (error) {
    await settle?.({ status: undefined, error, aborted: false });
    throw error;
  }
  // Awaited, because a Worker is stopped when it has answered.
  await settle?.({ status: response.status, error: ways.thrown?.(), aborted: false });
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
  readonly incoming?: { readonly socket?: { readonly remoteAddress?: string } };
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

/** Whether this runtime has no sockets to tell of. */
export function isPeerless(): boolean {
  return runsOnWorkers() || "EdgeRuntime" in globalThis;
}
