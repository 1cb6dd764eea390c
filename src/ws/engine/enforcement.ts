/** Reacts to rejected frames: throttled notices, strikes, and closing the connection. */
import { copyKey } from "../../base/copy-key.ts";
import { optionError } from "../../base/errors.ts";
import { callListener, requireSync } from "./callbacks.ts";
import { type GuardConfig, isAction } from "./guard-config.ts";
import { INVALID, type Ingress } from "./ingress.ts";
import type { Peer } from "./peer.ts";
import {
  closeReason,
  type ExceededAction,
  invalidNotice,
  type LimitExceeded,
  limitNotice,
  type Notice,
  PRIVATE_CODES,
  remainingWait,
} from "./replies.ts";
import type { Violation } from "./violation.ts";

/** The frame that exceeded a limit. */
interface OffendingFrame<Data, F> {
  readonly frame: F;
  readonly ingress: Ingress<Data>;
  /** When it was decided, as a monotonic time in ms, if it has waited since. */
  readonly decidedAt: number | undefined;
}

/** The number of recent denials, and the time of the last one in ms since the epoch. */
interface Strikes {
  readonly strikes: number;
  readonly lastStrikeAt: number;
}

/** The part of a connection that enforcement uses. */
interface ClosableConnection {
  readonly closed: boolean;
  end(): void;
}

/** A notice is not repeated for as long as the client has to wait, within these bounds. */
const MIN_NOTICE_INTERVAL_MS = 1000;
const MAX_NOTICE_INTERVAL_MS = 60_000;
/** Maximum number of different notices per interval. */
const MAX_NOTICES = 8;
/** Time after the last denial in which strikes expire. */
export const STRIKES_EXPIRE_MS = 60_000;

type Wait = { readonly retryAfterMs?: number | null };
const NO_WAIT: Wait = {};

/** Enforces the limits of one connection. */
export class Enforcement<Data, F, Message> implements Strikes {
  strikes: number;
  lastStrikeAt: number;
  private readonly config: GuardConfig<Data, F, Message>;
  private readonly peer: Peer<Data, F, Message>;
  private readonly connection: ClosableConnection;
  /** Until when each notice is not repeated, in ms since the epoch. */
  private readonly mutedUntil: Map<string, number> = new Map();

  constructor(
    config: GuardConfig<Data, F, Message>,
    peer: Peer<Data, F, Message>,
    connection: ClosableConnection,
    { strikes, lastStrikeAt }: Strikes = { strikes: 0, lastStrikeAt: 0 },
  ) {
    this.config = config;
    this.peer = peer;
    this.connection = connection;
    this.strikes = strikes;
    this.lastStrikeAt = lastStrikeAt;
  }

  /** Reports a violation, then sends a notice or closes the connection. A ping has no offending frame. */
  enforce(violation: Violation, offending?: OffendingFrame<Data, F>): void {
    const { type, observed, limit, key, policy, isClientFault } = violation;
    const { onLimitExceeded, reportError } = this.config;
    const { id } = this.peer;
    const retryAfterMs = remainingWait(violation.retryAfterMs, offending?.decidedAt);
    const wait: Wait = retryAfterMs === undefined ? NO_WAIT : { retryAfterMs };
    if (isClientFault) this.strike();
    const action = this.actionFor(violation, wait, offending?.ingress);
    const info: LimitExceeded = { type, observed, limit, ...wait, id, key, action };
    callListener(onLimitExceeded, reportError, info, offending?.ingress);
    // The listener may have closed the connection.
    if (this.connection.closed) return;
    if (action === "send") {
      this.notify(limitNotice(info, !isClientFault), `${type}:${policy}:${key}`, offending?.frame);
    } else if (action !== "custom") {
      this.close(info, action === "ban" ? "ban" : type === "payload" ? "payload" : "rate");
    }
  }

  /** Sends a notice about a frame that is invalid or could not be charged. It counts no strike. */
  notifyInvalid(message: string, frame: F): void {
    if (this.config.onExceeded !== "custom") this.notify(invalidNotice(message), INVALID, frame);
  }

  private actionFor(violation: Violation, wait: Wait, ingress: Ingress<Data> | undefined): ExceededAction {
    const { type, observed, limit, key, isClientFault, mustClose } = violation;
    const { onExceeded, closeAfter, reportError } = this.config;
    let action: ExceededAction;
    if (typeof onExceeded !== "function") {
      // Don't close for a store failure or an impossible cost: the client would reconnect and send the same frame again.
      action = isClientFault || onExceeded === "custom" ? onExceeded : "send";
    } else {
      try {
        const info = { type, observed, limit, ...wait, id: this.peer.id, key };
        action = requireSync("onExceeded", onExceeded(info, ingress));
        if (!isAction(action)) {
          const expected = 'a function that returns "send", "close", "ban" or "custom"';
          throw optionError("invalid-option", "onExceeded", expected, action);
        }
      } catch (error) {
        reportError(error);
        action = "send";
      }
    }
    const keepsOpen = action === "send" || action === "custom";
    return keepsOpen && (mustClose || (isClientFault && this.strikes >= closeAfter)) ? "close" : action;
  }

  private strike(): void {
    const now = this.config.clock.now();
    this.strikes = now - this.lastStrikeAt < STRIKES_EXPIRE_MS ? this.strikes + 1 : 1;
    this.lastStrikeAt = now;
  }

  /** Sends a notice unless the same one was sent recently: a flood of frames must not cause a flood of notices. */
  private notify(notice: Notice, topic: string, frame: F | undefined): void {
    if (this.connection.closed) return;
    const now = this.config.clock.now();
    const noticeKey = `${notice.code}:${topic}`;
    if ((this.mutedUntil.get(noticeKey) ?? 0) > now) return;
    if (this.mutedUntil.size >= MAX_NOTICES) {
      for (const [other, until] of this.mutedUntil) if (until <= now) this.mutedUntil.delete(other);
      if (this.mutedUntil.size >= MAX_NOTICES) return;
    }
    const interval = Math.max(notice.retryAfterMs ?? 0, MIN_NOTICE_INTERVAL_MS);
    this.mutedUntil.set(copyKey(noticeKey), now + Math.min(interval, MAX_NOTICE_INTERVAL_MS));
    try {
      const message = requireSync("encode", this.config.encode(notice, frame));
      if (message !== undefined) this.peer.send(message, frame);
      else this.mutedUntil.delete(noticeKey);
    } catch (error) {
      this.config.reportError(error);
    }
  }

  private close(info: LimitExceeded, code: "rate" | "payload" | "ban"): void {
    this.connection.end();
    const reason = closeReason(info);
    try {
      try {
        this.peer.close(this.config.closeCodes[code], reason);
      } catch {
        this.peer.close(PRIVATE_CODES[code], reason);
      }
    } catch (error) {
      callListener(this.config.onError, undefined, error);
    }
  }
}
