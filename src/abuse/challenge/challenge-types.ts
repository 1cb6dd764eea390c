/** The contracts of challenges: with providers, with the application and with the step that uses them. */

import type { MaybePromise } from "../../base/maybe-promise.ts";
import type { Decision } from "../../core/decision.ts";
import type { ResponseData } from "../../http/rejection.ts";
import type { ResponseFields } from "../../http/response.ts";
import type { AbuseReports } from "../reports.ts";

/** The member of a challenge that `abuse` uses. Registered, because the two builds of the package share it. */
export const CHALLENGE: unique symbol = Symbol.for("sluice.challenge") as never;

/** A challenge, made by `challenge`. */
export interface Challenge {
  /** What the middleware calls. */
  readonly [CHALLENGE]: ChallengeHandler;
}

/** A challenge as `abuse` uses it. */
export interface ChallengeHandler {
  /** The path that receives solutions: `/.sluice/clearance`. */
  readonly path: string;
  /** The id of the request's clearance; `undefined` without one that is valid for this client. */
  clearanceOf(request: ChallengeRequest): string | undefined;
  /** The token of a request with `Sluice-Challenge-Token`; `undefined` without one. */
  tokenOf(request: ChallengeRequest): string | undefined;
  /** Whether this is a request to `path`. */
  isSolution(request: ChallengeRequest): boolean;
  /** The response to a request to `path`. */
  solve(request: ChallengeRequest): Promise<ResponseData>;
  /** Verifies a token and issues a clearance, or returns the response to a token that is refused. */
  verify(token: string, request: ChallengeRequest): Promise<Clearance | ResponseData>;
  /** The response to a request that exceeded a limit of this rule with the action `"challenge"`. */
  respond(request: ChallengeRequest, rule: string): ResponseData;
}

/** What the caller gets for a solution. */
export interface Clearance {
  /** Identifies the clearance, whose requests have a limit of their own. */
  readonly id: string;
  /** Fields to set on the response: the cookie. */
  readonly set: ResponseFields;
}

/** A request as a challenge reads it. */
export interface ChallengeRequest {
  /** The HTTP method, in upper case. */
  readonly method: string;
  /** The request target as it was received: path and query. */
  readonly path: string;
  /** The canonical text of the IP address that `identity` found; `undefined` if it is unknown. */
  readonly ip: string | undefined;
  /**
   * A request header by its lower-case name. `host` is the authority of the request: on servers with a `Request`, that of
   * its URL; in HTTP/2, `:authority`.
   */
  header(name: string): string | undefined;
  /** Reads the body; `undefined` if it is longer than `maxBytes` or can't be read. */
  body(maxBytes: number): Promise<Uint8Array | { readonly parsed: unknown } | undefined>;
  /** Charges one verification to the client's IP address. */
  countVerification(): MaybePromise<Decision>;
  /** Reports events such as a provider that is down. */
  readonly reports: AbuseReports;
}
