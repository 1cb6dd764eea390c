/**
 * One connection at the door. Each frame takes the same steps, and each step stops the rest: closed, size, type, rate,
 * how many at once, valid, handled. Frames are handled in the order in which they came, however long a store takes to
 * decide; where it decides at once there is no promise.
 */
import { elapsed } from "../core/clock.ts";
import type { Decision, Denied } from "../core/decision.ts";
import { SluiceError } from "../core/errors.ts";
import { isPromise } from "../core/maybe-promise.ts";
import {
  closeReason,
  type ExceededAction,
  invalidNotice,
  type LimitExceeded,
  type Notice,
  noticeOf,
  PRIVATE_CODES,
} from "./answers.ts";
import { bindingCharge, chargesOf, consumeCharges, type FrameCharge } from "./charges.ts";
import { type Frame, INVALID, type Ingress } from "./ingress.ts";
import { KeyMemory } from "./keys.ts";
import { isAction, type Rules } from "./options.ts";
import { type BucketState, OwnBucket } from "./own-bucket.ts";

/** The other end of a connection, told by what is used of it. */
export interface Peer<Data = unknown, F = Frame, Message = string | Uint8Array> {
  /** Another one for every connection. */
  readonly id: string;
  /** The client's address, as `clientIp` of `sluice/http` finds it. */
  readonly ip?: string | undefined;
  /** What keys are made of: the user and the tenant, once they were verified. It is read with every frame. */
  data?: Data | undefined;
  /** Sends a message. The frame is the one that it answers; a ping has none. */
  send(message: Message, frame?: F): void;
  close(code: number, reason: string): void;
}

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
type Obstacle =
  | (Omit<LimitExceeded, "id" | "action"> & { /** Whether the client did that. */ readonly blame: boolean })
  | { readonly type?: undefined; readonly message: string };

/** A frame on its way. It waits for its decision, for those before it, and for its time. */
interface Turn<Data, F> {
  readonly frame: F;
  readonly bytes: number;
  readonly ingress: Ingress<Data>;
  readonly handle: HandleFrame<Data, F>;
  decided: boolean;
  obstacle: Obstacle | undefined;
  /** When it may go on, as `elapsed` tells time; 0 is at once. */
  due: number;
}

/** After a notice a client is told nothing of the same for as long as it has to wait, within these bounds. */
const QUIET_MS = { least: 1000, most: 60_000 };
/** The most notices that are kept apart. */
const MOST_NOTICES = 8;
/** So long after the last denial, strikes are forgotten. */
const STRIKES_MS = 60_000;
const LONGEST_TIMER: number = 2 ** 31 - 1;

/** The frames of one connection. */
export class Connection<Data = unknown, F = Frame, Message = string | Uint8Array> {
  private readonly rules: Rules<Data, F, Message>;
  private readonly peer: Peer<Data, F, Message>;
  private readonly own: OwnBucket | undefined;
  private readonly beats: OwnBucket;
  private readonly keys: KeyMemory = new KeyMemory();
  private readonly line: Turn<Data, F>[] = [];
  private queuedBytes = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** Frames that are being handled. */
  private pending = 0;
  private strikes: number;
  private struckAt: number;
  /** Until when nothing is told of what. */
  private readonly quiet: Map<string, number> = new Map();
  private ended = false;

  constructor(rules: Rules<Data, F, Message>, peer: Peer<Data, F, Message>, state?: ConnectionState) {
    this.rules = rules;
    this.peer = peer;
    this.own = rules.connection && new OwnBucket(rules.connection, state?.own);
    this.beats = new OwnBucket(rules.heartbeat, state?.beats);
    this.strikes = state?.strikes ?? 0;
    this.struckAt = state?.struckAt ?? 0;
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
    return this.ended;
  }

  /** A frame has come. `handle` gets it when it may pass, now or in its turn. */
  receive(frame: F, handle: HandleFrame<Data, F>): void {
    if (this.ended) return;
    const { rules, peer } = this;
    const receivedAt = rules.clock.now();
    const bytes = rules.sizeOf(frame, rules.maxBytes);
    const fits = bytes <= rules.maxBytes;
    const type = fits ? this.typeOf(frame) : INVALID;
    const ingress = { type, id: peer.id, ip: peer.ip, data: peer.data, receivedAt };
    const turn: Turn<Data, F> = { frame, bytes, ingress, handle, decided: false, obstacle: undefined, due: 0 };
    if (!fits) {
      const { maxBytes: limit } = rules;
      this.decide(turn, { type: "payload", observed: bytes, limit, key: this.ownKey(), blame: true }, 0);
      return;
    }
    const beat = rules.heartbeats.has(type);
    const own = (beat ? this.beats : this.own)?.take(1, receivedAt);
    if (own && !own.allowed) this.decide(turn, this.ownObstacle(own), 0);
    else if (beat || rules.limits.length === 0) this.decide(turn, undefined, own?.delayMs ?? 0);
    // A store is not asked about more than can wait for its answer.
    else if (this.isFull(bytes)) this.tooManyQueued(turn);
    else this.charge(turn, own?.delayMs ?? 0);
  }

  /** A ping has come, which has the bucket of heartbeats. Whether it may be answered. */
  ping(): boolean {
    if (this.ended) return false;
    const decision = this.beats.take(1, this.rules.clock.now());
    if (!decision.allowed) this.meet(this.ownObstacle(decision), undefined);
    return decision.allowed;
  }

  /** The connection is closed. Frames that wait are dropped. */
  end(): void {
    this.ended = true;
    this.line.length = 0;
    this.queuedBytes = 0;
    clearTimeout(this.timer);
  }

  /** What a server has to keep while it sleeps. */
  state(): ConnectionState {
    const { strikes, struckAt } = this;
    return { own: this.own?.state() ?? [], beats: this.beats.state(), strikes, struckAt };
  }

  private typeOf(frame: F): string {
    const { typeOf, types } = this.rules;
    if (!typeOf) return "";
    try {
      const type: unknown = typeOf(frame);
      return typeof type === "string" && (!types || types.has(type)) ? type : INVALID;
    } catch {
      return INVALID;
    }
  }

  /** Charges a frame, and goes on with it now or when that is decided. */
  private charge(turn: Turn<Data, F>, delayMs: number): void {
    let charges: readonly FrameCharge[];
    try {
      charges = chargesOf(this.rules.limits, turn.ingress, this.keys);
    } catch (error) {
      this.tell(this.rules.onError, error);
      this.decide(turn, { message: "The server can't tell what this costs." }, 0);
      return;
    }
    // The functions that were asked may have closed it.
    if (this.ended) return;
    if (charges.length === 0) {
      this.decide(turn, undefined, delayMs);
      return;
    }
    let decision: Decision | Promise<Decision>;
    try {
      decision = consumeCharges(charges);
    } catch (error) {
      this.decide(turn, this.unavailable(charges, error), 0);
      return;
    }
    if (!isPromise(decision)) {
      this.decide(turn, obstacleOf(decision, charges), Math.max(delayMs, decision.delayMs ?? 0));
      return;
    }
    this.enqueue(turn);
    decision
      .then(
        (decision) => settle(turn, obstacleOf(decision, charges), Math.max(delayMs, decision.delayMs ?? 0)),
        (error) => settle(turn, this.unavailable(charges, error), 0),
      )
      .then(() => this.advance());
  }

  /** Goes on with a frame that is decided: now, if nothing is before it and it need not wait, or else in its turn. */
  private decide(turn: Turn<Data, F>, obstacle: Obstacle | undefined, delayMs: number): void {
    // A function of the application may have closed it since the frame came.
    if (this.ended) return;
    settle(turn, obstacle, delayMs);
    if (this.line.length === 0 && delayMs === 0) this.act(turn);
    else if (!this.isFull(turn.bytes)) {
      this.enqueue(turn);
      if (this.line.length === 1) this.advance();
    } else if (obstacle) this.meet(obstacle, turn.frame);
    else this.tooManyQueued(turn);
  }

  private enqueue(turn: Turn<Data, F>): void {
    this.line.push(turn);
    this.queuedBytes += turn.bytes;
  }

  private isFull(bytes: number): boolean {
    const { maxQueued, maxQueuedBytes } = this.rules;
    return this.line.length >= maxQueued || this.queuedBytes + bytes > maxQueuedBytes;
  }

  /** Goes on with those at the head of the line whose time has come. */
  private advance(): void {
    clearTimeout(this.timer);
    for (let turn = this.line[0]; turn?.decided; turn = this.line[0]) {
      const wait = turn.due === 0 ? 0 : turn.due - elapsed();
      if (wait > 0) {
        this.timer = setTimeout(() => this.advance(), Math.min(Math.ceil(wait), LONGEST_TIMER));
        return;
      }
      this.line.shift();
      this.queuedBytes -= turn.bytes;
      this.act(turn);
    }
  }

  private act({ frame, ingress, handle, obstacle }: Turn<Data, F>): void {
    const { maxPending } = this.rules;
    if (obstacle) this.meet(obstacle, frame);
    else if (ingress.type === INVALID) this.refuse(frame, ingress);
    else if (this.pending >= maxPending) this.tooMany(this.pending + 1, maxPending, frame);
    else if (this.isValid(frame, ingress) && !this.ended) this.handle(frame, ingress, handle);
  }

  private isValid(frame: F, ingress: Ingress<Data>): boolean {
    const { validate } = this.rules;
    if (!validate) return true;
    try {
      const valid = validate(frame, ingress);
      if (isPromise(valid)) {
        valid.then(undefined, () => {});
        throw new SluiceError("invalid-option", "validate", "a function that tells at once, and not a promise");
      }
      if (valid === false) this.refuse(frame, ingress);
      return valid !== false;
    } catch (error) {
      this.refuse(frame, ingress, error);
      return false;
    }
  }

  private handle(frame: F, ingress: Ingress<Data>, handle: HandleFrame<Data, F>): void {
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
    if (this.rules.onError) this.tell(this.rules.onError, error);
    else void Promise.reject(error);
  }

  /** A frame that was paid for, and can't be read. */
  private refuse(frame: F, ingress: Ingress<Data>, error?: unknown): void {
    this.tell(this.rules.onInvalid, ingress, error);
    if (this.rules.onExceeded !== "custom") this.notify(invalidNotice("This can't be read."), INVALID, frame);
  }

  private tooManyQueued({ frame, bytes }: Turn<Data, F>): void {
    const { maxQueued, maxQueuedBytes } = this.rules;
    if (this.line.length >= maxQueued) this.tooMany(this.line.length + 1, maxQueued, frame);
    else this.tooMany(this.queuedBytes + bytes, maxQueuedBytes, frame);
  }

  private tooMany(observed: number, limit: number, frame: F): void {
    this.meet({ type: "inflight", observed, limit, key: this.ownKey(), blame: true }, frame);
  }

  /** Tells of what stands in a frame's way, and does something about it. Pings have no frame. */
  private meet(obstacle: Obstacle, frame: F | undefined): void {
    if (obstacle.type === undefined) {
      if (this.rules.onExceeded !== "custom") this.notify(invalidNotice(obstacle.message), INVALID, frame);
      return;
    }
    const { blame, ...about } = obstacle;
    if (blame) this.strike();
    const action = this.actionOn({ ...about, id: this.peer.id }, blame);
    const info: LimitExceeded = { ...about, id: this.peer.id, action };
    this.tell(this.rules.onLimitExceeded, info);
    // The hook may have closed it.
    if (this.ended) return;
    if (action === "send") this.notify(noticeOf(info, !blame), `${info.type}:${info.key}`, frame);
    else if (action !== "custom")
      this.shut(info, action === "ban" ? "ban" : info.type === "payload" ? "payload" : "rate");
  }

  private actionOn(info: Omit<LimitExceeded, "action">, blame: boolean): ExceededAction {
    const { onExceeded, closeAfter, onError } = this.rules;
    let action: unknown = onExceeded;
    if (typeof onExceeded === "function") {
      try {
        action = onExceeded(info);
        if (!isAction(action))
          throw new SluiceError("invalid-option", "onExceeded", "send, close, ban or custom", action);
      } catch (error) {
        this.tell(onError, error);
        action = "send";
      }
      // Who would only be told to come back with the same, or is not at fault, is told and stays.
    } else if (!blame && onExceeded !== "custom") action = "send";
    const isMild = action === "send" || action === "custom";
    return isMild && blame && this.strikes >= closeAfter ? "close" : (action as ExceededAction);
  }

  private strike(): void {
    const now = this.rules.clock.now();
    this.strikes = now - this.struckAt < STRIKES_MS ? this.strikes + 1 : 1;
    this.struckAt = now;
  }

  /** Tells the client, unless it was told the same a moment ago: a flood in is not a flood out. */
  private notify(notice: Notice, about: string, frame: F | undefined): void {
    if (this.ended) return;
    const now = this.rules.clock.now();
    if ((this.quiet.get(about) ?? 0) > now) return;
    if (this.quiet.size >= MOST_NOTICES) {
      for (const [other, until] of this.quiet) if (until <= now) this.quiet.delete(other);
      if (this.quiet.size >= MOST_NOTICES) return;
    }
    this.quiet.set(about, now + Math.min(Math.max(notice.retryAfterMs ?? 0, QUIET_MS.least), QUIET_MS.most));
    try {
      this.peer.send(this.rules.encode(notice, frame), frame);
    } catch (error) {
      this.tell(this.rules.onError, error);
    }
  }

  private shut(info: LimitExceeded, code: "rate" | "payload" | "ban"): void {
    this.end();
    const reason = closeReason(info);
    try {
      try {
        this.peer.close(this.rules.closeCodes[code], reason);
      } catch {
        this.peer.close(PRIVATE_CODES[code], reason);
      }
    } catch (error) {
      this.tell(this.rules.onError, error);
    }
  }

  private unavailable(charges: readonly FrameCharge[], error: unknown): Obstacle {
    this.tell(this.rules.onError, error);
    const { key, cost } = charges[0] as FrameCharge;
    return { type: "rate", observed: cost, limit: 0, key, blame: false };
  }

  private ownObstacle(decision: Denied): Obstacle {
    return deniedBy(decision, this.ownKey(), 1);
  }

  private ownKey(): string {
    return `connection:${this.peer.id}`;
  }

  /** Calls a function of the application whose faults are not ours. Nobody waits for it. */
  private tell<A extends unknown[]>(listener: ((...args: A) => unknown) | undefined, ...args: A): void {
    const { onError } = this.rules;
    const failed = (error: unknown) => {
      if ((listener as unknown) !== onError) this.tell(onError, error);
    };
    try {
      const told = listener?.(...args);
      if (isPromise(told)) told.then(undefined, failed);
    } catch (error) {
      failed(error);
    }
  }
}

function settle(
  turn: Pick<Turn<unknown, unknown>, "decided" | "obstacle" | "due">,
  obstacle: Obstacle | undefined,
  delayMs: number,
): void {
  turn.decided = true;
  turn.obstacle = obstacle;
  if (delayMs > 0) turn.due = elapsed() + delayMs;
}

function obstacleOf(decision: Decision, charges: readonly FrameCharge[]): Obstacle | undefined {
  if (decision.allowed) return undefined;
  const { key, cost } = bindingCharge(charges, decision);
  return deniedBy(decision, key, cost);
}

function deniedBy({ limit, retryAfterMs, unavailable }: Denied, key: string, observed: number): Obstacle {
  return { type: "rate", observed, limit, retryAfterMs, key, blame: retryAfterMs !== null && !unavailable };
}
