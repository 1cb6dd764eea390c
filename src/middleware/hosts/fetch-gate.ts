/** Opens the gate of frameworks that pass a `Request`, whatever else they pass with it. */
import { type Gate, openGate } from "../gate/gate.ts";
import type { RateLimitOptions } from "../gate/options.ts";
import type { HandlerArgs, RequestReader } from "../gate/request-reader.ts";
import type { CustomResponse } from "./fetch.ts";
import { hasBody, hostOf, targetOf } from "./fetch-request.ts";
import { readBody } from "./request-body.ts";

/** How a framework's arguments are read. */
export interface FetchArgsReader<Args extends HandlerArgs> {
  request(args: Args): Request;
  /** Path and query, if a framework routes by others than those of the request's URL. Default: those. */
  path?(args: Args): string | undefined;
  /** What the runtime knows about the request besides HTTP. Default: `request.cf` on Workers. */
  extra?(args: Args): unknown;
  /** The IP address at the other end of the socket. */
  peer(args: Args): string | undefined;
  /** Whether this runtime exposes no socket addresses, so `identity` or `key` is required. Default: false. */
  readonly peerless?: boolean;
  /** Whether the middleware ends before the response is known. Default: false. */
  readonly endsEarly?: boolean;
}

/** Validates the options, and creates the gate. */
export function openFetchGate<Args extends HandlerArgs>(
  options: RateLimitOptions<Args, CustomResponse>,
  reader: FetchArgsReader<Args>,
): Gate<Args> {
  return openGate<Args, CustomResponse>(options, fetchReader(reader));
}

/** Reads the request among the arguments. */
export function fetchReader<Args extends HandlerArgs>({
  request,
  path,
  extra,
  peer,
  peerless = false,
  endsEarly = false,
}: FetchArgsReader<Args>): RequestReader<Args> {
  return {
    method: (args) => request(args).method,
    header: (args, name) => request(args).headers.get(name) ?? undefined,
    peer,
    hasBody: (args) => hasBody(request(args), undefined),
    path: (args) => path?.(args) ?? targetOf(request(args)),
    host: (args) => hostOf(request(args)),
    extra: (args) => extra?.(args) ?? (request(args) as { cf?: unknown }).cf,
    body: (args, maxBytes) => readBody(request(args), maxBytes),
    peerless,
    endsEarly,
  };
}
