/**
 * The contract between the gate of a middleware and abuse prevention. The gate knows nothing else about it, so an
 * application without `sluice/abuse` does not contain it.
 */

import type { SluiceError } from "../base/errors.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import type { WarningCode } from "../base/warnings.ts";
import type { Decision, Denied } from "../core/decision.ts";
import type { ResolvedPolicy } from "../core/policy.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { Address } from "./identity/address.ts";
import type { ResponseData } from "./rejection.ts";
import type { AbuseAbilities, LimitStorage, MountedMiddleware, RequestCharges } from "./request-charges.ts";
import type { RequestObserver } from "./request-observer.ts";
import type { RequestValues } from "./request-values.ts";
import type { ResponseFields } from "./response.ts";

/** The member of `abuse(...)` that middleware uses. Registered, because the two builds of the package share it. */
export const REQUEST_ABUSE: unique symbol = Symbol.for("sluice.abuse") as never;

/** Abuse prevention as middleware uses it. `Args` are the arguments that its server passes. */
export interface RequestAbuse<Args extends readonly unknown[]> {
  readonly [REQUEST_ABUSE]: AbuseMount<Args>;
}

/** Connects abuse prevention with middleware. */
export interface AbuseMount<Args extends readonly unknown[]> {
  /** The arguments that its functions accept. A function, so that the compiler also accepts one with fewer parameters. */
  readonly accepts?: (...args: Args) => void;
  /** Throws if the middleware lacks what it needs, such as a store for penalties. */
  mount<A extends readonly unknown[]>(middleware: ScreenedMiddleware<A>): MountedAbuse<A>;
}

/** A middleware as abuse prevention uses it. */
export interface ScreenedMiddleware<Args extends readonly unknown[]> extends MountedMiddleware<Args> {
  readonly reader: ScreenedReader<Args>;
  readonly observer: RequestObserver<Args> | undefined;
  /** The storage of the limits; `undefined` if the limiter is chosen for each request, or is not one of sluice. */
  readonly storage: LimitStorage | undefined;
  /** The limiters of the options, or functions that return them; `undefined` if there are rules. */
  readonly limiters: readonly unknown[] | undefined;
  /** The IP address of the client; `undefined` if it is unknown. */
  address(args: Args): Address | undefined;
  /** Whether that may be the address of a proxy, whose clients share it: `identity` is not set. */
  mayBeProxy(args: Args): boolean;
  /** The key of an IP address, such as `ip:203.0.113.7`. */
  keyOf(address: Address): string;
  /** The charges of a request with further ones, all or nothing. */
  join(charges: RequestCharges, added: readonly AddedCharge[]): RequestCharges;
  /** Reports a problem: to `onEvent`, else as a process warning, once per code and subject. */
  report(event: AbuseEvent, code: WarningCode, subject: string, message: string, args: Args): void;
  /** Rejects a promise of a function of the application that does not settle in time. */
  withDeadline<T>(option: string, value: MaybePromise<T>): MaybePromise<T>;
  /** Reports the error of a function of the application that does not fail the request. */
  signalFailed(error: unknown, args: Args): void;
}

/** A charge that is added to those of a request. */
export interface AddedCharge {
  readonly limiter: RateLimiter;
  readonly key: string;
  readonly cost: number;
  readonly isHeld: boolean;
  /** Whether nothing is taken: a penalty that only denies while its key is blocked. */
  readonly isPeeked: boolean;
}

/** How requests are read. */
interface ScreenedReader<Args extends readonly unknown[]> {
  method(args: Args): string;
  path(args: Args): string;
  header(args: Args, name: string): string | undefined;
  peer(args: Args): string | undefined;
  readonly isCall?: boolean;
  host?(args: Args): string | undefined;
  extra?(args: Args): unknown;
  body(args: Args, maxBytes: number): Promise<Uint8Array | { readonly parsed: unknown } | undefined>;
}

/** Events of abuse prevention. */
type AbuseEvent =
  | { readonly type: "list-stale"; readonly policy: string; readonly list: string; readonly error: SluiceError }
  | { readonly type: "provider-down"; readonly policy: string; readonly provider: string; readonly error: SluiceError };

/** Abuse prevention of one middleware. */
export interface MountedAbuse<Args extends readonly unknown[]> extends AbuseAbilities {
  /** Checks lists, traps and solutions of challenges. `"exempt"`: the request is neither counted nor limited. */
  enter(args: Args): MaybePromise<ScreenedRequest | ResponseData | "exempt">;
  /**
   * Checks deny lists and existing blocks of a CORS preflight, by its IP address: it has no credentials and no body.
   * `undefined`: it passes.
   */
  enterPreflight(args: Args): MaybePromise<ResponseData | DeniedPreflight | undefined>;
  /** Adds penalties to the charges of a request without rules. */
  penalize(charges: RequestCharges, request: ScreenedRequest): MaybePromise<RequestCharges>;
  /** Delays the response to a blocked key. `undefined`: it is sent at once. */
  delayBlocked(decision: Decision): Promise<void> | undefined;
}

/** A CORS preflight that is rejected. */
export interface DeniedPreflight {
  /** The key that is blocked, or whose budget is exhausted. */
  readonly key: string;
  readonly decision: Denied;
  readonly policy: ResolvedPolicy | undefined;
}

/** A request that lists and traps let pass. */
export interface ScreenedRequest {
  /** Its facts, with those of signals. */
  readonly values: RequestValues;
  /** Fields to set on the response, such as the cookie of a clearance. */
  readonly set: ResponseFields | undefined;
  /** The response to a request that exceeded a limit of this rule with the action `"challenge"`. */
  challenge(rule: string): ResponseData;
}
