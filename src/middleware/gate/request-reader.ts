/** What the gate asks a server about a request. */
import type { MaybePromise } from "../../core/maybe-promise.ts";

/** The facts of a request, as its server has them. */
export interface RequestReader<Call extends readonly unknown[]> {
  method(call: Call): string;
  header(call: Call, name: string): string | undefined;
  /** The address at the other end of the socket. */
  peer(call: Call): string | undefined;
  /** Whether the request has a body. Only asked of a request that is otherwise a CORS preflight. */
  hasBody(call: Call): MaybePromise<boolean>;
  /** Whether this runtime has no sockets to tell of, so that an identity has to be named. */
  readonly peerless?: boolean;
  /** Whether one request object may be passed several times, as tests of a handler do. Default: false. */
  readonly repeatable?: boolean;
}
