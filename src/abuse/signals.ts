/** Signals: what is known about the client of a request besides its identity. A signal is a fact for rules, and never denies. */
import type { MaybePromise } from "../base/maybe-promise.ts";

/** Whether a client is a bot: a verified one such as a search engine, probably one, or probably none. */
export type Bot = "verified" | "likely" | "unlikely";

/** What a signal reports. */
export interface SignalResult {
  /** The fact `bot`. */
  readonly bot?: Bot | undefined;
  /** Further facts by name. */
  readonly facts?: Readonly<Record<string, string>> | undefined;
}

/** The member of a built-in signal. Registered, because the two builds of the package share it. */
export const SIGNAL: unique symbol = Symbol.for("sluice.signal") as never;

/** A built-in signal, which reads requests of every server. */
export interface RequestSignal {
  /** Reads the signal from a request. */
  readonly [SIGNAL]: (request: SignalRequest) => SignalResult | undefined;
}

/** A request as a built-in signal reads it. */
export interface SignalRequest {
  /** `request.cf` on Workers. */
  readonly extra: unknown;
  /** The IP address at the other end of the socket. */
  readonly peer: string | undefined;
  /** A request header by its lower-case name. */
  header(name: string): string | undefined;
}

/** A source of facts: a function with the arguments of the middleware, or a built-in signal. `undefined`: nothing is known. */
export type Signal<Args extends readonly unknown[]> =
  | ((...args: Args) => MaybePromise<SignalResult | undefined>)
  | RequestSignal;
