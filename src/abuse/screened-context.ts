/** One request as lists, traps, signals and challenges read it. */

import { optionError } from "../base/errors.ts";
import { andThen, isPromise, type MaybePromise } from "../base/maybe-promise.ts";
import type { Decision } from "../core/decision.ts";
import type { ObserverPort } from "../core/observer.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { Address } from "../http/identity/address.ts";
import { UNIDENTIFIED } from "../http/identity/client-key.ts";
import { type Facts, MountedContext } from "../http/mounted-context.ts";
import type { ScreenedMiddleware } from "../http/request-abuse.ts";
import type { ChallengeHandler, ChallengeRequest } from "./challenge/challenge-types.ts";
import type { AbuseReports } from "./reports.ts";
import { type Bot, SIGNAL, type Signal, type SignalRequest, type SignalResult } from "./signals.ts";

const BOTS: readonly unknown[] = ["verified", "likely", "unlikely"] satisfies Bot[];

/** What abuse prevention of one middleware is made of, as far as single requests use it. */
export interface ScreeningParts<Args extends readonly unknown[]> {
  readonly middleware: ScreenedMiddleware<Args>;
  readonly facts: Facts<Args>;
  readonly signals: readonly Signal<Args>[];
  readonly challenge: ChallengeHandler | undefined;
  /** Limits verifications per IP address. */
  readonly verifications: RateLimiter | undefined;
}

/** The context of a request. Every value is computed when it is first used, and at most once. */
export class ScreenedContext<Args extends readonly unknown[]> extends MountedContext<Args> implements SignalRequest {
  /** The clearance that a token of this request was exchanged for. */
  newClearance: string | undefined;
  private readonly screening: ScreeningParts<Args>;
  private readonly signalResults: MaybePromise<SignalResult | undefined>[] = [];
  private challengeRequest: ChallengeRequest | undefined;
  private foundAddress: { readonly address: Address | undefined } | undefined;

  constructor(screening: ScreeningParts<Args>, args: Args) {
    const { middleware, facts } = screening;
    super(middleware, facts, args);
    this.screening = screening;
  }

  get observer(): ObserverPort | undefined {
    return this.screening.middleware.observer?.port;
  }

  get reports(): AbuseReports {
    const { args } = this;
    const { report } = this.screening.middleware;
    const { observer } = this;
    return {
      listRefreshed: (list) => observer?.transition({ type: "list-refreshed", list }),
      listStale(list, error) {
        const message = `The list "${list}" could not be loaded, so an old one is in use, or none: ${error.message}`;
        report({ type: "list-stale", policy: "", list, error }, "SLUICE_LIST_STALE", list, message, args);
      },
      providerDown(provider, error) {
        observer?.challenge("", "provider-down");
        const message = `Solutions of challenges can't be verified by ${provider}, so they are refused: ${error.message}`;
        report({ type: "provider-down", policy: "", provider, error }, "SLUICE_PROVIDER_DOWN", provider, message, args);
      },
    };
  }

  get extra(): unknown {
    return this.screening.middleware.reader.extra?.(this.args);
  }

  get peer(): string | undefined {
    return this.screening.middleware.reader.peer(this.args);
  }

  header(name: string): string | undefined {
    const { reader } = this.screening.middleware;
    if (name !== "host") return reader.header(this.args, name);
    if (reader.host) return reader.host(this.args);
    try {
      // Requests over HTTP/2 have a pseudo-header instead.
      return reader.header(this.args, "host") ?? reader.header(this.args, ":authority");
    } catch {
      // A `Headers` object throws for its name.
      return undefined;
    }
  }

  address(): Address | undefined {
    this.foundAddress ??= { address: this.screening.middleware.address(this.args) };
    return this.foundAddress.address;
  }

  /** The address, unless it may be that of a proxy: for what must not apply to all of its clients. */
  ownAddress(): Address | undefined {
    return this.mayBeProxy() ? undefined : this.address();
  }

  hasOwnAddress(): boolean {
    return this.address() !== undefined;
  }

  mayBeProxy(): boolean {
    return this.screening.middleware.mayBeProxy(this.args);
  }

  /** The request as challenges read it. */
  get challenged(): ChallengeRequest {
    this.challengeRequest ??= this.createChallengeRequest();
    return this.challengeRequest;
  }

  private createChallengeRequest(): ChallengeRequest {
    const { screening, args } = this;
    const { middleware, verifications } = screening;
    const address = this.ownAddress();
    return {
      method: this.method.toUpperCase(),
      path: this.path,
      ip: address?.toString(),
      header: (name) => this.header(name),
      body: (maxBytes) => middleware.reader.body(args, maxBytes),
      countVerification: (): MaybePromise<Decision> =>
        (verifications as RateLimiter).consume(address ? middleware.keyOf(address) : UNIDENTIFIED),
      reports: this.reports,
    };
  }

  /** A fact of the application, else that of a signal. */
  override fact(name: string): MaybePromise<unknown> {
    if (name === "clearance") return this.newClearance ?? this.screening.challenge?.clearanceOf(this.challenged);
    if (Object.hasOwn(this.facts, name)) return super.fact(name);
    // A signal is not verified, so it identifies nobody.
    return name === "user" || name === "apiKey" ? undefined : this.signalFact(name, 0);
  }

  /** The fact of the first signal that provides it. */
  private signalFact(name: string, from: number): MaybePromise<string | undefined> {
    const signal = this.screening.signals[from];
    if (signal === undefined) return undefined;
    if (!(from in this.signalResults)) this.signalResults[from] = this.resultOf(signal);
    return andThen(this.signalResults[from], (result) => {
      const fact = name === "bot" ? result?.bot : ownFact(result?.facts, name);
      return fact ?? this.signalFact(name, from + 1);
    });
  }

  /** A signal that fails knows nothing: it never denies. */
  private resultOf(signal: Signal<Args>): MaybePromise<SignalResult | undefined> {
    const { middleware } = this.screening;
    const failed = (error: unknown): undefined => middleware.signalFailed(error, this.args) as undefined;
    try {
      const result =
        typeof signal === "function"
          ? middleware.withDeadline("abuse.signals", signal(...this.args))
          : signal[SIGNAL](this);
      return isPromise(result) ? result.then(checkResult).then(undefined, failed) : checkResult(result);
    } catch (error) {
      return failed(error);
    }
  }
}

function ownFact(facts: SignalResult["facts"], name: string): string | undefined {
  return facts && Object.hasOwn(facts, name) ? facts[name] : undefined;
}

function checkResult(result: SignalResult | undefined): SignalResult | undefined {
  if (result === undefined || result === null) return undefined;
  if (SIGNAL in result) {
    throw optionError("invalid-option", "signals", "signals that were called, such as userAgentBots()");
  }
  const { bot, facts } = result;
  if (typeof result !== "object" || (bot !== undefined && !BOTS.includes(bot))) {
    const expected = 'an object whose bot is "verified", "likely", "unlikely" or undefined';
    throw optionError("invalid-option", "the result of a signal", expected, typeof result === "object" ? bot : result);
  }
  const isValid = (value: unknown): boolean => value === undefined || typeof value === "string";
  if (facts !== undefined && !(typeof facts === "object" && facts !== null && Object.values(facts).every(isValid))) {
    throw optionError("invalid-option", "facts of a signal", "an object of texts by name", facts);
  }
  return result;
}
