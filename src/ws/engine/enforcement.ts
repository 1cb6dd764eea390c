/** What becomes of a client whose frame does not pass: a notice that is not repeated, strikes, a close. */
import { copyKey } from "../../core/copy-key.ts";
import { optionError } from "../../core/errors.ts";
import { tell, toldAtOnce } from "./callbacks.ts";
import { INVALID, type Ingress } from "./ingress.ts";
import { type GuardConfig, isAction } from "./options.ts";
import type { Peer } from "./peer.ts";
import {
  closeReason,
  type ExceededAction,
  invalidNotice,
  type LimitExceeded,
  type LimitType,
  type Notice,
  noticeOf,
  PRIVATE_CODES,
  waitLeft,
} from "./replies.ts";

/** Something that is exceeded. */
export interface Excess {
  readonly type: LimitType;
  readonly observed: number;
  readonly limit: number;
  readonly retryAfterMs?: number | null | undefined;
  readonly key: string;
  /** Of a rate, the policy that binds: several may have the same keys. */
  readonly policy?: string;
  /** Whether the client did that. */
  readonly blame: boolean;
  /** Whether nothing but a close can keep it from having its way. */
  readonly must?: boolean;
}

/** The frame that did it. */
interface Offence<Data, F> {
  readonly frame: F;
  readonly ingress: Ingress<Data>;
  /** When it was decided, if it has waited since, as `elapsed` tells time. */
  readonly decidedAt: number | undefined;
}

/** How many denials there were lately, and when the last was. */
interface Strikes {
  readonly strikes: number;
  readonly struckAt: number;
}

/** After a notice a client is told nothing of the same for as long as it has to wait, within these bounds. */
const QUIET_MS = { least: 1000, most: 60_000 };
/** The most notices that are kept apart. */
const MAX_NOTICES = 8;
/** So long after the last denial, strikes are forgotten. */
const STRIKES_MS = 60_000;
const NOTHING: { readonly retryAfterMs?: number | null } = {};

/** The consequences for one connection. */
export class Enforcement<Data, F, Message> implements Strikes {
  strikes: number;
  struckAt: number;
  private readonly rules: GuardConfig<Data, F, Message>;
  private readonly peer: Peer<Data, F, Message>;
  private readonly life: { readonly closed: boolean; end(): void };
  /** Until when nothing is told of what. */
  private readonly quiet: Map<string, number> = new Map();

  constructor(
    rules: GuardConfig<Data, F, Message>,
    peer: Peer<Data, F, Message>,
    life: { readonly closed: boolean; end(): void },
    { strikes, struckAt }: Strikes = { strikes: 0, struckAt: 0 },
  ) {
    this.rules = rules;
    this.peer = peer;
    this.life = life;
    this.strikes = strikes;
    this.struckAt = struckAt;
  }

  /** Tells of what is exceeded, and does something about it. A ping is no frame. */
  exceed(excess: Excess, offence?: Offence<Data, F>): void {
    const { type, observed, limit, key, policy, blame } = excess;
    const { onLimitExceeded, reportError } = this.rules;
    const { id } = this.peer;
    const retryAfterMs = waitLeft(excess.retryAfterMs, offence?.decidedAt);
    const about: typeof NOTHING = retryAfterMs === undefined ? NOTHING : { retryAfterMs };
    if (blame) this.strike();
    const action = this.actionOn(excess, about, offence?.ingress);
    const info: LimitExceeded = { type, observed, limit, ...about, id, key, action };
    tell(onLimitExceeded, reportError, info, offence?.ingress);
    // The hook may have closed it.
    if (this.life.closed) return;
    if (action === "send") this.notify(noticeOf(info, !blame), `${type}:${policy}:${key}`, offence?.frame);
    else if (action !== "custom") this.shut(info, action === "ban" ? "ban" : type === "payload" ? "payload" : "rate");
  }

  private actionOn(
    { type, observed, limit, key, blame, must }: Excess,
    about: typeof NOTHING,
    ingress: Ingress<Data> | undefined,
  ): ExceededAction {
    const { onExceeded, closeAfter, reportError } = this.rules;
    let action: ExceededAction;
    if (typeof onExceeded !== "function") {
      // Who would only be told to come back with the same, or is not at fault, is told and stays.
      action = blame || onExceeded === "custom" ? onExceeded : "send";
    } else {
      try {
        const info = { type, observed, limit, ...about, id: this.peer.id, key };
        action = toldAtOnce("onExceeded", onExceeded(info, ingress));
        if (!isAction(action)) throw optionError("invalid-option", "onExceeded", "send, close, ban or custom", action);
      } catch (error) {
        reportError(error);
        action = "send";
      }
    }
    const isMild = action === "send" || action === "custom";
    return isMild && (must || (blame && this.strikes >= closeAfter)) ? "close" : action;
  }

  private strike(): void {
    const now = this.rules.clock.now();
    this.strikes = now - this.struckAt < STRIKES_MS ? this.strikes + 1 : 1;
    this.struckAt = now;
  }

  /** Tells of a frame that can't be read or judged. That is no limit, and closes nothing. */
  invalid(message: string, frame: F): void {
    if (this.rules.onExceeded !== "custom") this.notify(invalidNotice(message), INVALID, frame);
  }

  /** Tells the client, unless it was told the same a moment ago: a flood in is not a flood out. */
  private notify(notice: Notice, about: string, frame: F | undefined): void {
    if (this.life.closed) return;
    const now = this.rules.clock.now();
    const same = `${notice.code}:${about}`;
    if ((this.quiet.get(same) ?? 0) > now) return;
    if (this.quiet.size >= MAX_NOTICES) {
      for (const [other, until] of this.quiet) if (until <= now) this.quiet.delete(other);
      if (this.quiet.size >= MAX_NOTICES) return;
    }
    this.quiet.set(copyKey(same), now + Math.min(Math.max(notice.retryAfterMs ?? 0, QUIET_MS.least), QUIET_MS.most));
    try {
      const message = toldAtOnce("encode", this.rules.encode(notice, frame));
      if (message !== undefined) this.peer.send(message, frame);
      // Nothing was told.
      else this.quiet.delete(same);
    } catch (error) {
      this.rules.reportError(error);
    }
  }

  private shut(info: LimitExceeded, code: "rate" | "payload" | "ban"): void {
    this.life.end();
    const reason = closeReason(info);
    try {
      try {
        this.peer.close(this.rules.closeCodes[code], reason);
      } catch {
        this.peer.close(PRIVATE_CODES[code], reason);
      }
    } catch (error) {
      tell(this.rules.onError, undefined, error);
    }
  }
}
