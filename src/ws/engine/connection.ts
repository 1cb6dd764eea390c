/**
 * One connection at the door. Each frame takes the same steps, and each step stops the rest: closed, size, type, rate,
 * how many at once, valid, handled. Frames are handled in the order in which they came, however long a store takes to
 * decide; where it decides at once there is no promise.
 */
import { monotonicMs } from "../../core/clock.ts";
import type { Decision, Denied } from "../../core/decision.ts";
import { optionError, SluiceError } from "../../core/errors.ts";
import { isPromise, type MaybePromise } from "../../core/maybe-promise.ts";
import { applyCharges, type CheckedCharge, limitingCharge } from "../../limiter/charges.ts";
import { tell, toldAtOnce } from "./callbacks.ts";
import { type BucketState, ConnectionBucket } from "./connection-bucket.ts";
import { Enforcement, type Excess } from "./enforcement.ts";
import { chargesOf } from "./frame-charges.ts";
import { FrameQueue, type Waiting } from "./frame-queue.ts";
import { type Frame, INVALID, type Ingress } from "./ingress.ts";
import { KeyMemory } from "./keys.ts";
import type { GuardConfig } from "./options.ts";
import type { Peer } from "./peer.ts";

/** Handles a frame that has passed. While its promise is pending, the frame counts as one of `maxPending`. */
export type HandleFrame<Data = unknown, F = Frame> = (frame: F, ingress: Ingress<Data>) => unknown;

/** What a server that sleeps keeps of a connection. */
export interface ConnectionState {
  readonly own: BucketState;
  readonly beats: BucketState;
  readonly strikes: number;
  readonly struckAt: number;
}

/** What stands in a frame's way: something is exceeded, or it can't be judged. */
type Obstacle = Excess | { readonly type?: undefined; readonly message: string };

/** A frame on its way. */
interface Turn<Data, F> extends Waiting {
  readonly frame: F;
  readonly ingress: Ingress<Data>;
  readonly handle: HandleFrame<Data, F>;
  decided: boolean;
  obstacle: Obstacle | undefined;
  /** When that was decided, if it has to wait, as `elapsed` tells time. */
  decidedAt: number | undefined;
  due: number;
}

/** What the keys of a connection's own buckets begin with. */
const OWN = "connection";
const BEATS = "heartbeat";
type OwnName = typeof OWN | typeof BEATS;

/** One connection, and what becomes of its frames. */
export class Connection<Data = unknown, F = Frame, Message = string | Uint8Array> {
  private readonly rules: GuardConfig<Data, F, Message>;
  private readonly peer: Peer<Data, F, Message>;
  private readonly own: ConnectionBucket | undefined;
  private readonly beats: ConnectionBucket;
  private readonly keys: KeyMemory = new KeyMemory();
  private readonly line: FrameQueue<Turn<Data, F>>;
  /** Frames that are being handled. */
  private pending = 0;
  private readonly consequences: Enforcement<Data, F, Message>;
  private ended = false;

  constructor(rules: GuardConfig<Data, F, Message>, peer: Peer<Data, F, Message>, state?: ConnectionState) {
    this.rules = rules;
    this.peer = peer;
    this.own = rules.connection && new ConnectionBucket(rules.connection, state?.own);
    this.beats = new ConnectionBucket(rules.heartbeat, state?.beats);
    this.line = new FrameQueue(rules, (turn) => this.act(turn));
    this.consequences = new Enforcement(rules, peer, this, state);
  }

  /** Another one for every connection. */
  get id(): string {
    return this.peer.id;
  }

  /** What the connection carries. Set it when a client has proved who it is. */
  get data(): Data | undefined {
    return this.peer.data;
  }

  set data(data: Data | undefined) {
    this.peer.data = data;
  }

  /** Whether it is closed, from either side. Nothing is handled any more. */
  get closed(): boolean {
    return this.ended || this.peer.isOpen === false;
  }

  /** A frame has come. `handle` gets it when it may pass, now or in its turn. `bytes` is its size, if that is known. */
  receive(frame: F, handle: HandleFrame<Data, F>, bytes: number = this.rules.sizeOf(frame, this.rules.maxBytes)): void {
    if (typeof handle !== "function") throw optionError("invalid-option", "handle", "a function", handle);
    if (this.closed) return;
    const { rules, peer } = this;
    const receivedAt = rules.clock.now();
    const fits = bytes <= rules.maxBytes;
    const type = fits ? this.typeOf(frame) : INVALID;
    const ingress = { type, id: peer.id, ip: peer.ip, data: peer.data, receivedAt };
    const turn = { frame, bytes, ingress, handle, decided: false, obstacle: undefined, decidedAt: undefined, due: 0 };
    const beat = rules.heartbeats.has(type);
    const own = (beat ? this.beats : this.own)?.take(1, receivedAt);
    if (!fits) {
      const { maxBytes: limit } = rules;
      this.decide(turn, { type: "payload", observed: bytes, limit, key: this.ownKey(), blame: true }, 0);
    } else if (own && !own.allowed) this.decide(turn, this.ownExcess(own, beat ? BEATS : OWN), 0);
    else if (beat || rules.limits.length === 0) this.decide(turn, undefined, own?.delayMs ?? 0);
    // A store is not asked about more than can wait for its answer.
    else if (this.line.isFull(bytes)) this.tooManyQueued(turn);
    else this.charge(turn, own?.delayMs ?? 0);
  }

  /** A ping has come, which has the bucket of heartbeats. Whether it may be answered. */
  ping(): boolean {
    return this.count(this.beats, BEATS);
  }

  /**
   * Something has come that is not for a handler, and counts as a frame. Whether that is within the limit; where it `must`
   * not go on beyond that and can't be dropped, the connection is closed.
   */
  control(must = false): boolean {
    return this.count(this.own, OWN, must);
  }

  /** Closes the connection. Nothing is handled from now on, not even what has come already. */
  close(code: number, reason = ""): void {
    if (this.ended) return;
    // A socket that refuses the code or the reason says so, and stays as it is.
    this.peer.close(code, reason);
    this.end();
  }

  /** The connection was closed. Frames that wait are dropped, and nobody is told of them. */
  end(): void {
    this.ended = true;
    this.line.clear();
  }

  /** What a server has to keep while it sleeps. */
  state(): ConnectionState {
    const { strikes, struckAt } = this.consequences;
    return { own: this.own?.state() ?? [], beats: this.beats.state(), strikes, struckAt };
  }

  private count(bucket: ConnectionBucket | undefined, name: OwnName, must = false): boolean {
    if (this.closed) return false;
    const decision = bucket?.take(1, this.rules.clock.now());
    if (!decision || decision.allowed) return true;
    this.consequences.exceed({ ...this.ownExcess(decision, name), must });
    return false;
  }

  private typeOf(frame: F): string {
    const { typeOf, types } = this.rules;
    if (!typeOf) return "";
    try {
      const type: unknown = toldAtOnce("typeOf", typeOf(frame));
      return typeof type === "string" && (!types || types.has(type)) ? type : INVALID;
    } catch (error) {
      // It throws at what can't be read, which is nothing to tell of.
      if (error instanceof SluiceError) this.rules.reportError(error);
      return INVALID;
    }
  }

  /** Charges a frame, and goes on with it now or when that is decided. */
  private charge(turn: Turn<Data, F>, delayMs: number): void {
    const { limits, reportError } = this.rules;
    let charges: readonly CheckedCharge[];
    try {
      charges = chargesOf(limits, turn.ingress, this.keys);
    } catch (error) {
      reportError(error);
      this.decide(turn, { message: "The server can't tell what this costs." }, 0);
      return;
    }
    if (charges.length === 0) this.decide(turn, undefined, delayMs);
    else if (!this.closed) this.ask(turn, charges, delayMs);
  }

  private ask(turn: Turn<Data, F>, charges: readonly CheckedCharge[], delayMs: number): void {
    let decision: MaybePromise<Decision>;
    let excess: Excess | undefined;
    try {
      decision = applyCharges(charges);
      if (!isPromise(decision)) excess = excessOf(decision, charges);
    } catch (error) {
      this.decide(turn, this.unavailable(charges, error), 0);
      return;
    }
    if (!isPromise(decision)) {
      this.decide(turn, excess, Math.max(delayMs, decision.delayMs ?? 0));
      return;
    }
    this.enqueue(turn);
    // A limiter that is not ours may return what only looks like a promise.
    Promise.resolve(decision)
      .then((decision) => settle(turn, excessOf(decision, charges), Math.max(delayMs, decision.delayMs ?? 0)))
      .catch((error) => settle(turn, this.unavailable(charges, error), 0))
      .then(() => this.line.advance());
  }

  /** Goes on with a frame that is decided: now, if nothing is before it and it need not wait, or else in its turn. */
  private decide(turn: Turn<Data, F>, obstacle: Obstacle | undefined, delayMs: number): void {
    // A function of the application may have closed it since the frame came.
    if (this.closed) return;
    if (this.line.length === 0 && delayMs === 0) {
      turn.obstacle = obstacle;
      this.act(turn);
      return;
    }
    settle(turn, obstacle, delayMs);
    if (!this.line.isFull(turn.bytes)) {
      this.enqueue(turn);
      if (this.line.length === 1) this.line.advance();
    } else if (obstacle) this.meet(obstacle, turn);
    else this.tooManyQueued(turn);
  }

  private enqueue(turn: Turn<Data, F>): void {
    // A limiter of the application may have closed it while it was asked.
    if (!this.ended) this.line.add(turn);
  }

  private act(turn: Turn<Data, F>): void {
    const { obstacle, ingress } = turn;
    const { maxPending } = this.rules;
    if (this.closed) return;
    if (obstacle) this.meet(obstacle, turn);
    else if (ingress.type === INVALID) this.refuse(turn);
    else if (this.pending >= maxPending) this.tooMany({ observed: this.pending + 1, limit: maxPending }, turn);
    else if (this.isValid(turn) && !this.closed) this.handle(turn);
  }

  private isValid(turn: Turn<Data, F>): boolean {
    const { validate } = this.rules;
    if (!validate) return true;
    try {
      const verdict = toldAtOnce("validate", validate(turn.frame, turn.ingress));
      if (isFit(verdict)) return true;
      this.refuse(turn, verdict);
    } catch (error) {
      this.refuse(turn, error);
    }
    return false;
  }

  private handle({ frame, ingress, handle }: Turn<Data, F>): void {
    this.pending++;
    let handling: unknown;
    try {
      handling = handle(frame, ingress);
    } catch (error) {
      this.pending--;
      this.mishap(error);
      return;
    }
    if (!isPromise(handling)) {
      this.pending--;
      return;
    }
    // Not its own `then`, which may throw if it is not a real promise.
    Promise.resolve(handling).then(
      () => this.pending--,
      (error) => {
        this.pending--;
        this.mishap(error);
      },
    );
  }

  /** What a handler throws is the application's own. Without a listener it ends as it would without a guard. */
  private mishap(error: unknown): void {
    if (this.rules.onError) tell(this.rules.onError, undefined, error);
    else void Promise.reject(error);
  }

  /** A frame that was paid for, and can't be read. */
  private refuse({ frame, ingress }: Turn<Data, F>, why?: unknown): void {
    const { onInvalid, reportError } = this.rules;
    tell(onInvalid, reportError, ingress, why);
    this.consequences.invalid("This can't be read.", frame);
  }

  private tooManyQueued(turn: Turn<Data, F>): void {
    this.tooMany(this.line.excess(turn.bytes), turn);
  }

  private tooMany(counted: { observed: number; limit: number }, turn: Turn<Data, F>): void {
    this.consequences.exceed({ type: "inflight", ...counted, key: this.ownKey(), blame: true }, turn);
  }

  private meet(obstacle: Obstacle, turn: Turn<Data, F>): void {
    if (obstacle.type === undefined) this.consequences.invalid(obstacle.message, turn.frame);
    else this.consequences.exceed(obstacle, turn);
  }

  private unavailable(charges: readonly CheckedCharge[], error: unknown): Excess {
    this.rules.reportError(error, "SLUICE_STORE_UNAVAILABLE");
    const { key, cost } = charges[0] as CheckedCharge;
    return { type: "rate", observed: cost, limit: 0, key, blame: false };
  }

  private ownExcess(decision: Denied, name: OwnName): Excess {
    return deniedBy(decision, this.ownKey(name), 1);
  }

  private ownKey(name: OwnName = OWN): string {
    return `${name}:${this.peer.id}`;
  }
}

/** What schemas return of a frame that does not fit them. */
function isFit(verdict: unknown): boolean {
  if (typeof verdict !== "object" || verdict === null) return verdict !== false;
  const { success, issues } = verdict as { success?: unknown; issues?: unknown };
  return success !== false && !(Array.isArray(issues) && issues.length > 0);
}

function settle(
  turn: Pick<Turn<unknown, unknown>, "decided" | "obstacle" | "decidedAt" | "due">,
  obstacle: Obstacle | undefined,
  delayMs: number,
): void {
  turn.decided = true;
  turn.obstacle = obstacle;
  turn.decidedAt = monotonicMs();
  turn.due = turn.decidedAt + delayMs;
}

function excessOf(decision: Decision, charges: readonly CheckedCharge[]): Excess | undefined {
  if (decision.allowed) return undefined;
  const { key, cost } = limitingCharge(charges, decision);
  return deniedBy(decision, key, cost);
}

function deniedBy({ limit, retryAfterMs, policy, unavailable }: Denied, key: string, observed: number): Excess {
  const blame = retryAfterMs !== null && !unavailable;
  return { type: "rate", observed, limit, retryAfterMs, key, policy, blame };
}
