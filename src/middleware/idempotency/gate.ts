/**
 * The gate of `idempotent`: runs a request once per key and scope, and answers its retries with the stored response. The
 * limiter is behind it, so a retry is not charged.
 */
import { monotonicMs } from "../../base/clock.ts";
import { optionError } from "../../base/errors.ts";
import { andThen, isPromise, type MaybePromise } from "../../base/maybe-promise.ts";
import { ReportThrottle } from "../../base/report-throttle.ts";
import { describeError, emitProcessWarning } from "../../base/warnings.ts";
import type { Denied } from "../../core/decision.ts";
import { emit } from "../../core/events.ts";
import { type ObserverPort, observerPort } from "../../core/observer.ts";
import { isStoreFailure, type StoreFailure } from "../../core/store.ts";
import { rejection } from "../../http/rejection.ts";
import type { BeginResult, IdempotencyKey, IdempotencyStore } from "../../idempotency/idempotency-store.ts";
import type { Gate, GateResult } from "../gate/gate.ts";
import { checkDecision, errorFrom, limiterFrom, policiesOf, policyFrom } from "../gate/limiters.ts";
import type { LimiterLike } from "../gate/options.ts";
import { recordPeer } from "../gate/peers.ts";
import { type Callback, Reports } from "../gate/reports.ts";
import type { HandlerArgs } from "../gate/request-reader.ts";
import { isUnhandled } from "../gate/unhandled.ts";
import { recordIdempotency } from "./current.ts";
import { fingerprintOf } from "./fingerprint.ts";
import { parseKey } from "./key-header.ts";
import { MountOrder } from "./mount-order.ts";
import { type IdempotencyConfig, type IdempotencyOptions, parseIdempotencyOptions } from "./options.ts";
import { newOwner } from "./owner.ts";
import type { IdempotencyReader } from "./payload.ts";
import { notStored, type ProblemCode, problem } from "./problems.ts";
import { type Report, runOnce } from "./running-request.ts";
import { type ScopeOf, scopeOf } from "./scopes.ts";
import { StoreCalls } from "./store-calls.ts";
import { replayOf } from "./stored-response.ts";

/** The longest request body with a key, in bytes. */
const MAX_PAYLOAD_BYTES = 2 ** 20;

/** Validates the options, and creates the gate. */
export function openIdempotency<Args extends HandlerArgs>(
  options: IdempotencyOptions<Args>,
  reader: IdempotencyReader<Args>,
): Gate<Args> {
  return new IdempotencyGate(parseIdempotencyOptions(options), reader);
}

/** A request with a key. */
interface KeyedRequest<Args extends HandlerArgs> {
  readonly args: Args;
  readonly id: IdempotencyKey;
  readonly owner: string;
  readonly fingerprint: string;
}

class IdempotencyGate<Args extends HandlerArgs> implements Gate<Args> {
  private readonly config: IdempotencyConfig<Args>;
  private readonly reader: IdempotencyReader<Args>;
  private readonly reports: Reports<Args>;
  private readonly calls: StoreCalls;
  private readonly scopeOf: ScopeOf<Args>;
  private readonly replays: LimiterLike;
  private readonly observer: ObserverPort | undefined;
  private readonly order: MountOrder<Args>;
  private hasWarnedUnscoped = false;
  private hasWarnedFailed = false;
  private hasWarnedUnavailable = false;

  constructor(config: IdempotencyConfig<Args>, reader: IdempotencyReader<Args>) {
    this.config = config;
    this.reader = reader;
    const { onEvent, observer, store, deadlineMs } = config;
    this.reports = new Reports<Args>({ ...(onEvent && { onEvent }), ...(observer && { observer }) }, "idempotent");
    this.observer = observerPort(observer);
    this.order = new MountOrder((message, args) => this.reports.warn(message, args, "SLUICE_MISUSE"));
    this.calls = new StoreCalls(store, deadlineMs);
    // A store in memory can't be unavailable.
    if (!store.isLocal) this.observer?.watch(this.calls.health, "idempotency");
    watchEvictions(store, (scope, count) => this.evicted(scope, count));
    this.scopeOf = scopeOf(config, reader, this.reports);
    this.replays = replayLimiter(config.replayLimit);
    if (!onEvent) return;
    this.calls.health.watch({
      down: (error) => emit({ onEvent }, { type: "store-down", policy: "", error }),
      up: (downMs) => emit({ onEvent }, { type: "store-up", policy: "", downMs }),
      degraded: (error, count) => emit({ onEvent }, { type: "degraded", policy: "", error, count }),
    });
  }

  enter(args: Args): GateResult<Args> | Promise<GateResult<Args>> {
    const { header, methods, required } = this.config;
    if (!methods.has(this.reader.method(args).toUpperCase())) return undefined;
    const field = this.reader.header(args, header);
    if (field !== undefined) return this.enterKeyed(args, field.trim());
    return required ? this.problem("key-missing") : undefined;
  }

  handleError(error: unknown): Error {
    return error instanceof Error ? error : errorFrom(error);
  }

  callbackFailed(callback: Callback, error: unknown, args: Args): void {
    this.reports.callbackFailed(callback, error, args);
  }

  requestFailed(error: unknown): void {
    if (this.hasWarnedFailed) return;
    this.hasWarnedFailed = true;
    emitProcessWarning("SLUICE_REQUEST_FAILED", `A request could not be checked: ${describeError(error)}.`);
  }

  private async enterKeyed(args: Args, field: string): Promise<GateResult<Args>> {
    recordPeer(this.reader, args);
    const found = this.scopeOf(args);
    const scope = isPromise(found) ? await found : found;
    if (scope === undefined) return this.unscoped(args);
    const key = parseKey(field);
    if (key === undefined) return this.problem("key-malformed");
    const hashed = this.fingerprint(args);
    const fingerprint = isPromise(hashed) ? await hashed : hashed;
    if (fingerprint === undefined) return this.problem("body-too-long");
    const request = { args, id: { scope, key }, owner: newOwner(), fingerprint };
    const begun = await this.begin(request);
    if (isStoreFailure(begun)) return this.withoutStore(request, begun);
    if (begun.state === "started") return this.start(request, begun.attempt);
    const { replays } = this;
    const consumed = replays.consumeSync ? replays.consumeSync(scope) : await replays.consume(scope);
    const decision = checkDecision(consumed);
    if (!decision.allowed) return this.reject(args, decision);
    if (!begun.same) {
      this.observer?.idempotency("key-reused");
      return this.problem("key-reused");
    }
    if (begun.state === "in-progress") {
      this.observer?.idempotency("in-progress");
      return this.problem("request-in-progress", 1);
    }
    return this.replay(request);
  }

  /** The header is ignored: another client could send the same key, and would get the response. */
  private unscoped(args: Args): GateResult<Args> {
    if (this.config.required) return this.problem("key-unscoped");
    if (this.hasWarnedUnscoped) return undefined;
    this.hasWarnedUnscoped = true;
    const message =
      "A request has an Idempotency-Key header and no scope, so the header was ignored. Set identity with jwt or apiKey, or a scope function that returns the verified user.";
    this.reports.warn(message, args, "SLUICE_MISUSE");
    return undefined;
  }

  /** The hash of the payload; `undefined` if the body is too long. */
  private fingerprint(args: Args): MaybePromise<string | undefined> {
    const { reader } = this;
    const { fingerprint } = this.config;
    if (fingerprint) return andThen(fingerprint(...args), (value) => fingerprintOf(["own"], bytesFrom(value)));
    return andThen(reader.payload(args, MAX_PAYLOAD_BYTES), (body) => {
      const head = [reader.method(args).toUpperCase(), reader.path(args), reader.header(args, "content-type") ?? ""];
      return body && fingerprintOf(head, body);
    });
  }

  /** Claims the key. Waits for a request in progress as long as the options allow. */
  private async begin({ args, id, owner, fingerprint }: KeyedRequest<Args>): Promise<BeginResult | StoreFailure> {
    const { lease, ttl, wait } = this.config;
    const { scope, key } = id;
    const claim = { scope, key, owner, fingerprint, leaseMs: lease, ttlMs: ttl };
    const begun = await this.calls.begin(claim);
    if (wait === 0 || isStoreFailure(begun) || begun.state !== "in-progress" || !begun.same) return begun;
    return (await this.calls.beginLater(claim, wait, this.reader.signal(args))) ?? begun;
  }

  private start({ args, id, owner }: KeyedRequest<Args>, attempt: number): GateResult<Args> {
    this.observer?.idempotency("started");
    recordIdempotency(args[0] as object, { key: id.key, attempt });
    const { config, calls } = this;
    const report: Report = (event) => this.report(event, args);
    const callbackFailed = (error: unknown): void => this.callbackFailed("shouldStore", error, args);
    const isUnhandledRequest = (): boolean => isUnhandled(args[0] as object);
    const capture = runOnce({ config, calls, id, owner, isUnhandled: isUnhandledRequest, report, callbackFailed });
    const onFinish = this.order.watch(args[0] as object, args);
    return { pendingHeaders: undefined, delayMs: 0, onFinish, isHeld: false, capture };
  }

  private report(event: Parameters<Report>[0], args: Args): void {
    if (event.type === "lease-lost") {
      const message =
        "A request lost its lease on an idempotency key: the event loop was blocked, or the store was unavailable, for longer than the lease. Another request may have run with the key.";
      this.reports.report(event, "SLUICE_LEASE_LOST", "", message, args);
    } else {
      const message = `The response to a request with an idempotency key was not stored (${event.reason}). Set onEvent to receive every such event.`;
      this.reports.report(event, "SLUICE_RESPONSE_NOT_STORED", event.reason, message, args);
    }
  }

  private evicted(scope: string, count: number): void {
    const message = `The idempotency store in memory is full and evicted ${count === 1 ? "a response" : `${count} responses`} before its time. A retry of such a request runs again. Raise maxEntries or maxBytes, or use a store in Redis.`;
    const event = { type: "evicted", policy: "", scope, count } as const;
    this.reports.report(event, "SLUICE_RESPONSE_EVICTED", "", message, [] as never);
  }

  /** Rejects a retry of a scope that has sent too many. */
  private reject(args: Args, decision: Denied): GateResult<Args> {
    this.observer?.request("idempotent", "denied", decision);
    const accept = this.reader.header(args, "accept");
    return { rejection: rejection(decision, policiesOf(this.replays), accept, {}), limited: undefined };
  }

  /** Reads the response only now: a scope that has sent too many retries makes the store read nothing. */
  private async replay({ id, fingerprint }: KeyedRequest<Args>): Promise<GateResult<Args>> {
    const { docs, onStoreError } = this.config;
    const response = await this.calls.read(id, fingerprint);
    if (isStoreFailure(response)) {
      if (onStoreError === "throw") throw response.error;
      // Also with "open": there is a response, so the handler must not run again.
      return this.problem("store-unavailable", this.calls.retryAfterS(response));
    }
    // It has expired since it was found. The next retry starts.
    if (!response) return this.problem("request-in-progress", 1);
    this.observer?.idempotency("replayed");
    return { answer: response.body === null ? notStored(response, docs) : replayOf(response) };
  }

  private withoutStore({ args, id }: KeyedRequest<Args>, failure: StoreFailure): GateResult<Args> {
    const { onStoreError, onEvent } = this.config;
    const { error } = failure;
    if (onStoreError === "throw") throw error;
    if (onStoreError === "open") {
      this.report({ type: "response-not-stored", policy: "", ...id, reason: "store", error }, args);
      return undefined;
    }
    if (!onEvent && !this.hasWarnedUnavailable) {
      this.hasWarnedUnavailable = true;
      const message = `The idempotency store is unavailable, so requests with a key are rejected with 503. Cause: ${describeError(error.cause ?? error)}. Set onEvent to follow outages.`;
      this.reports.warn(message, args, "SLUICE_STORE_UNAVAILABLE");
    }
    return this.problem("store-unavailable", this.calls.retryAfterS(failure));
  }

  private problem(code: ProblemCode, retryAfterS?: number): GateResult<Args> {
    return { answer: problem(code, this.config.docs, retryAfterS) };
  }
}

/** Calls a listener with the first eviction of a store, then at most once a minute with the number since. */
function watchEvictions(store: IdempotencyStore, listener: (scope: string, count: number) => void): void {
  if (!("onEviction" in store)) return;
  const memory = store as IdempotencyStore & { onEviction: ((scope: string) => void) | undefined };
  const { onEviction: before } = memory;
  const throttle = new ReportThrottle();
  memory.onEviction = (scope) => {
    before?.(scope);
    const count = throttle.add(monotonicMs());
    if (count > 0) listener(scope, count);
  };
}

/** The limiter of retries: the given one, or one in memory. */
function replayLimiter(given: IdempotencyConfig<HandlerArgs>["replayLimit"]): LimiterLike {
  if (typeof given === "object" && given !== null && "consume" in given) {
    return limiterFrom({ limiter: given }) as LimiterLike;
  }
  return limiterFrom({ policy: policyFrom("replayLimit", given) }) as LimiterLike;
}

const encoder = new TextEncoder();

function bytesFrom(value: unknown): Uint8Array {
  if (typeof value === "string") return encoder.encode(value);
  if (value instanceof Uint8Array) return value;
  throw optionError("invalid-option", "fingerprint", "a function that returns a string or a Uint8Array");
}
