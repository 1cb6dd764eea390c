/** How the gate reads a request, whichever server received it. */
import type { MaybePromise } from "../../base/maybe-promise.ts";

/** The arguments that a server passes to a middleware or handler: the request first, then whatever else it has. */
export type HandlerArgs = readonly unknown[];

/** The body of a request: its bytes, or the value that a body parser has made of it. */
export type RequestBody = Uint8Array | { readonly parsed: unknown };

/** Reads the arguments of one server's middleware. */
export interface RequestReader<Args extends HandlerArgs> {
  method(args: Args): string;
  /** A request header by its lower-case name. */
  header(args: Args, name: string): string | undefined;
  /** The IP address at the other end of the socket. */
  peer(args: Args): string | undefined;
  /** Whether the request has a body. Called only for a request that is otherwise a CORS preflight. */
  hasBody(args: Args): MaybePromise<boolean>;
  /** The target of the request as the server received it: path and query, neither decoded nor normalised. */
  path(args: Args): string;
  /** The host that the request was sent to, with its port. Default: the header `host`, or `:authority` of HTTP/2. */
  host?(args: Args): string | undefined;
  /** What the runtime knows about the request besides HTTP: `request.cf` on Workers. Default: nothing. */
  extra?(args: Args): unknown;
  /**
   * Reads the body, if the request is answered and its handler does not run: a Node request can be read only once.
   * `undefined` if it is longer than `maxBytes`, was consumed without a parser, or does not arrive within 10 s.
   */
  body(args: Args, maxBytes: number): Promise<RequestBody | undefined>;
  /** Whether this runtime exposes no socket addresses, so `identity` or `key` is required. Default: false. */
  readonly peerless?: boolean;
  /** Whether the middleware ends before the response is known, so nothing can be refunded or held. Default: false. */
  readonly endsEarly?: boolean;
  /** Whether a call is limited that has a result in place of a response, such as a Server Action. Default: false. */
  readonly isCall?: boolean;
  /** Whether one request object may be handled several times, as tests of a fetch handler do. Default: false. */
  readonly repeatable?: boolean;
}
