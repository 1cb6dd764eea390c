/**
 * One guarded connection. Each frame passes the same stages, and each stage can reject it: closed, size, type, the bucket
 * of the connection, limits, frames in flight, validation, handler. Frames are handled in the order in which they were
 * received, however long a store takes. If all limiters are synchronous, no promise is created.
 */

import { optionError, SluiceError } from "../../base/errors.ts";
import { isPromise, type MaybePromise } from "../../base/maybe-promise.ts";
import type { Decision } from "../../core/decision.ts";
import type { CheckedCharge } from "../../joint/charges.ts";
import { requireSync } from "./callbacks.ts";
import { type BucketState, ConnectionBucket } from "./connection-bucket.ts";
import { Enforcement } from "./enforcement.ts";
import { chargeFrame, chargesOf, holdOf } from "./frame-charges.ts";
import { FrameDispatcher } from "./frame-dispatcher.ts";
import {
  ALLOWED,
  CHARGING,
  FrameQueue,
  type FrameState,
  type QueuedFrame,
  releaseHold,
  setDecided,
} from "./frame-queue.ts";
import type { GuardConfig } from "./guard-config.ts";
import { type Frame, type HandleFrame, INVALID, type Ingress } from "./ingress.ts";
import { KeyCache } from "./keys.ts";
import type { Peer } from "./peer.ts";
import {
  connectionKey,
  heartbeatKey,
  inFlightViolation,
  payloadViolation,
  rateViolation,
  UNCHARGED,
  unavailableViolation,
  type Violation,
  violationOf,
} from "./violation.ts";

/** The state of a connection, for servers that persist it while they hibernate. */
export interface ConnectionState {
  /** The connection's own bucket. */
  readonly bucket: BucketState;
  /** The bucket of heartbeats and pings. */
  readonly heartbeats: BucketState;
  /** Number of recent denials, as counted for `closeAfter`. */
  readonly strikes: number;
  /** Time of the last denial, in milliseconds since the epoch. */
  readonly lastStrikeAt: number;
}

/** One guarded connection. */
export class Connection<Data = unknown, F = Frame, Message = string | Uint8Array> {
  private readonly config: GuardConfig<Data, F, Message>;
  private readonly peer: Peer<Data, F, Message>;
  private readonly bucket: ConnectionBucket | undefined;
  private readonly heartbeats: ConnectionBucket;
  private readonly keys: KeyCache = new KeyCache();
  private readonly enforcement: Enforcement<Data, F, Message>;
  private readonly dispatcher: FrameDispatcher<Data, F, Message>;
  private readonly queue: FrameQueue<Data, F>;
  private ended = false;

  constructor(config: GuardConfig<Data, F, Message>, peer: Peer<Data, F, Message>, state?: ConnectionState) {
    this.config = config;
    this.peer = peer;
    this.bucket = config.connection && new ConnectionBucket(config.connection, state?.bucket);
    this.heartbeats = new ConnectionBucket(config.heartbeat, state?.heartbeats);
    this.enforcement = new Enforcement(config, peer, this, state);
    this.dispatcher = new FrameDispatcher(config, this.enforcement, this);
    this.queue = new FrameQueue(config, (queued) => this.dispatcher.dispatch(queued));
  }

  /** Unique id of the connection. */
  get id(): string {
    return this.peer.id;
  }

  /** The data of the connection. Set it when a client has authenticated. */
  get data(): Data | undefined {
    return this.peer.data;
  }

  set data(data: Data | undefined) {
    this.peer.data = data;
  }

  /** Whether the connection is closed, by either side. No more frames are handled. */
  get closed(): boolean {
    return this.ended || this.peer.isOpen === false;
  }

  /**
   * Checks a received frame, and calls `handle` with it if it passes, now or later in its turn. `bytes` is its size if the
   * server provides it. Default: computed from the frame.
   */
  receive(
    frame: F,
    handle: HandleFrame<Data, F>,
    bytes: number = this.config.sizeOf(frame, this.config.maxBytes),
  ): void {
    if (typeof handle !== "function") throw optionError("invalid-option", "handle", "a function", handle);
    if (this.closed) return;
    const { config, peer } = this;
    const receivedAt = config.clock.now();
    const oversized = this.checkSize(bytes);
    const type = oversized ? INVALID : this.checkType(frame);
    const ingress: Ingress<Data> = { type, id: peer.id, ip: peer.ip, data: peer.data, receivedAt };
    const queued: QueuedFrame<Data, F> = {
      frame,
      bytes,
      ingress,
      handle,
      state: CHARGING,
      decidedAt: undefined,
      dueAt: 0,
    };
    const isHeartbeat = config.heartbeats.has(type);
    // An oversized frame is charged too.
    const own = (isHeartbeat ? this.heartbeats : this.bucket)?.take(1, receivedAt);
    const delayMs = own?.allowed ? (own.delayMs ?? 0) : 0;
    if (oversized) this.wait(queued, oversized, 0);
    else if (own && !own.allowed) {
      const key = isHeartbeat ? heartbeatKey(peer.id) : connectionKey(peer.id);
      this.wait(queued, rateViolation(own, key, 1), 0);
    } else if (isHeartbeat || config.limits.length === 0) this.wait(queued, ALLOWED, delayMs);
    // Don't charge a frame that could not wait for the decision.
    else if (this.queue.isFull(bytes)) this.rejectOverflow(queued);
    else this.charge(queued, delayMs);
  }

  /** Charges a ping to the heartbeat bucket. Returns whether to reply to it. */
  ping(): boolean {
    return this.chargeControl(this.heartbeats, heartbeatKey, false);
  }

  /**
   * Charges a packet that has no handler, such as a control packet, as one frame. Returns whether it is within the limit.
   * If it is not and the server can't drop the packet, `mustClose` closes the connection.
   */
  control(mustClose = false): boolean {
    return this.chargeControl(this.bucket, connectionKey, mustClose);
  }

  /** Closes the connection. Frames that are waiting are dropped. */
  close(code: number, reason = ""): void {
    if (this.ended) return;
    // First the socket: if it throws because of the code or the reason, the connection stays open.
    this.peer.close(code, reason);
    this.end();
  }

  /** Call this when the socket has closed. Frames that are waiting are dropped without a notice. */
  end(): void {
    this.ended = true;
    this.queue.clear();
  }

  /** Returns the state to persist while the server hibernates. */
  state(): ConnectionState {
    const { strikes, lastStrikeAt } = this.enforcement;
    return { bucket: this.bucket?.state() ?? [], heartbeats: this.heartbeats.state(), strikes, lastStrikeAt };
  }

  private checkSize(bytes: number): Violation | undefined {
    const { maxBytes } = this.config;
    return bytes <= maxBytes ? undefined : payloadViolation(this.peer.id, bytes, maxBytes);
  }

  private checkType(frame: F): string {
    const { typeOf, types } = this.config;
    if (!typeOf) return "";
    try {
      const type: unknown = requireSync("typeOf", typeOf(frame));
      return typeof type === "string" && (!types || types.has(type)) ? type : INVALID;
    } catch (error) {
      // `typeOf` may throw for invalid frames. Only its misuse is reported.
      if (error instanceof SluiceError) this.config.reportError(error);
      return INVALID;
    }
  }

  private chargeControl(
    bucket: ConnectionBucket | undefined,
    keyOf: (id: string) => string,
    mustClose: boolean,
  ): boolean {
    if (this.closed) return false;
    const decision = bucket?.take(1, this.config.clock.now());
    if (!decision || decision.allowed) return true;
    this.enforcement.enforce({ ...rateViolation(decision, keyOf(this.peer.id), 1), mustClose });
    return false;
  }

  /** Computes the charges of a frame and applies them. */
  private charge(queued: QueuedFrame<Data, F>, delayMs: number): void {
    const { limits, reportError } = this.config;
    let charges: readonly CheckedCharge[];
    try {
      charges = chargesOf(limits, queued.ingress, this.keys);
    } catch (error) {
      reportError(error);
      this.wait(queued, UNCHARGED, 0);
      return;
    }
    if (charges.length === 0) this.wait(queued, ALLOWED, delayMs);
    else if (!this.closed) this.decide(queued, charges, delayMs);
  }

  /** Applies charges. A frame whose decision is a promise waits for it in the queue. */
  private decide(queued: QueuedFrame<Data, F>, charges: readonly CheckedCharge[], delayMs: number): void {
    let decision: MaybePromise<Decision>;
    let violation: Violation | undefined;
    try {
      decision = chargeFrame(charges, this.config.mayHold);
      if (!isPromise(decision)) violation = violationOf(decision, charges);
    } catch (error) {
      this.wait(queued, this.unavailable(charges, error), 0);
      return;
    }
    if (!isPromise(decision)) {
      queued.hold = holdOf(decision);
      this.wait(queued, violation ?? ALLOWED, Math.max(delayMs, decision.delayMs ?? 0));
      return;
    }
    this.enqueue(queued);
    // `Promise.resolve` first: another library's limiter may return an arbitrary thenable.
    Promise.resolve(decision)
      .then((decision) => {
        const state = violationOf(decision, charges) ?? ALLOWED;
        queued.hold = holdOf(decision);
        // The queue was cleared meanwhile.
        if (this.closed && queued.hold) releaseHold(queued.hold);
        setDecided(queued, state, Math.max(delayMs, decision.delayMs ?? 0));
      })
      .catch((error) => setDecided(queued, this.unavailable(charges, error), 0))
      .then(() => this.queue.advance());
  }

  /** Makes a decided frame wait for earlier frames and for its delay. Dispatches it at once if there is neither. */
  private wait(queued: QueuedFrame<Data, F>, state: FrameState, delayMs: number): void {
    // A callback of the application may have closed the connection since the frame was received.
    if (this.closed) {
      if (queued.hold) releaseHold(queued.hold);
      return;
    }
    if (this.queue.length === 0 && delayMs === 0) {
      queued.state = state;
      this.dispatcher.dispatch(queued);
      return;
    }
    setDecided(queued, state, delayMs);
    if (!this.queue.isFull(queued.bytes)) {
      this.enqueue(queued);
      if (this.queue.length === 1) this.queue.advance();
    } else if (state.type === "allowed" || state.type === "charging") {
      if (queued.hold) releaseHold(queued.hold);
      this.rejectOverflow(queued);
    } else this.dispatcher.reject(queued, state);
  }

  private enqueue(queued: QueuedFrame<Data, F>): void {
    // The application's limiter may have closed the connection during the call.
    if (!this.ended) this.queue.add(queued);
  }

  private rejectOverflow(queued: QueuedFrame<Data, F>): void {
    this.dispatcher.reject(queued, inFlightViolation(this.peer.id, this.queue.overflow(queued.bytes)));
  }

  private unavailable(charges: readonly CheckedCharge[], error: unknown): Violation {
    this.config.reportError(error, "SLUICE_STORE_UNAVAILABLE");
    return unavailableViolation(charges);
  }
}
