/** Reacts to rejected messages of ws-kit: an error to the client, or the end of the connection. */
import { systemClock } from "../../base/clock.ts";
import { optionError } from "../../base/errors.ts";
import { checkWhole } from "../../base/options.ts";
import { callListener, type ReportError, requireSync } from "../engine/callbacks.ts";
import { STRIKES_EXPIRE_MS } from "../engine/enforcement.ts";
import { isAction, parseCloseCodes } from "../engine/guard-config.ts";
import { type CloseCodes, closeReason, type ExceededAction, type LimitExceeded } from "../engine/replies.ts";

/** How the middleware reacts to a message that exceeds the limit. */
export interface ExceededOptions<Context> {
  /**
   * `"send"` an error, `"close"` the connection, `"ban"` (close with a code that means "do not reconnect"), `"custom"`,
   * which leaves it to `onLimitExceeded`, or a function that returns one of them. Default: `"send"`.
   */
  onExceeded?: ExceededAction | ((info: Omit<LimitExceeded, "action">, context: Context) => ExceededAction);
  /** Close a connection after this many rejected messages within a minute of each other. Default: never. */
  closeAfter?: number;
  /** Close codes. Default: 1013 for the rate, 1008 for a ban. */
  closeCodes?: Omit<CloseCodes, "payload">;
  /** Called once for each rejected message. Not awaited; its errors are passed to `onError`. Default: none. */
  onLimitExceeded?: (info: LimitExceeded) => unknown;
}

/** The parts of a socket that are used. */
interface ClosableSocket {
  readonly readyState?: unknown;
  close?(code?: number, reason?: string): void;
}

/** A message that was rejected. */
type Rejected = Omit<LimitExceeded, "id" | "action"> & { readonly isClientFault: boolean };

/** Reports rejected messages, and closes connections. */
export class Exceeded<Context extends { readonly clientId: string; readonly ws: object }> {
  private readonly options: ExceededOptions<Context>;
  private readonly closeAfter: number;
  private readonly closeCodes: Required<CloseCodes>;
  private readonly reportError: ReportError;
  private readonly clock = systemClock();
  private readonly strikes: WeakMap<object, { count: number; lastAt: number }> = new WeakMap();
  /** Connections that this middleware has closed. Some sockets stay open until the client has answered. */
  private readonly closed: WeakSet<object> = new WeakSet();

  constructor(options: ExceededOptions<Context>, reportError: ReportError) {
    const { onExceeded = "send", closeAfter, closeCodes = {} } = options;
    if (typeof onExceeded !== "function" && !isAction(onExceeded)) {
      throw optionError("invalid-option", "onExceeded", '"send", "close", "ban", "custom" or a function', onExceeded);
    }
    this.options = options;
    this.closeAfter =
      closeAfter === undefined ? Number.POSITIVE_INFINITY : checkWhole("closeAfter", closeAfter, 1, 2 ** 31 - 1);
    this.closeCodes = parseCloseCodes(closeCodes);
    this.reportError = reportError;
  }

  /** Whether messages of a connection are ignored. `readyState` is a word in ws-kit, and a number in the sockets that it wraps. */
  isClosed(ws: object): boolean {
    const { readyState } = ws as ClosableSocket;
    return [2, 3, "CLOSING", "CLOSED"].includes(readyState as never) || this.closed.has(ws);
  }

  /** Reports a rejected message. Returns whether to send an error to its client. */
  enforce(context: Context, { isClientFault, ...rejected }: Rejected): boolean {
    const info = { ...rejected, id: context.clientId };
    const action = this.actionFor(context, info, isClientFault);
    callListener(this.options.onLimitExceeded, this.reportError, { ...info, action });
    // The listener may have closed the connection.
    if (this.isClosed(context.ws)) return false;
    if (action === "close" || action === "ban") this.close(context.ws, { ...info, action });
    return action === "send";
  }

  /** Whether an error is sent about a message that is invalid. It is no strike. */
  get sendsInvalid(): boolean {
    return this.options.onExceeded !== "custom";
  }

  private actionFor(context: Context, info: Omit<LimitExceeded, "action">, isClientFault: boolean): ExceededAction {
    const { onExceeded = "send" } = this.options;
    // Not closed for a store failure or an impossible cost: the client would reconnect, and send the same message again.
    let action: ExceededAction = "send";
    if (typeof onExceeded !== "function") action = isClientFault || onExceeded === "custom" ? onExceeded : "send";
    else {
      try {
        const chosen = requireSync("onExceeded", onExceeded(info, context));
        const expected = 'a function that returns "send", "close", "ban" or "custom"';
        if (!isAction(chosen)) throw optionError("invalid-option", "onExceeded", expected, chosen);
        action = chosen;
      } catch (error) {
        this.reportError(error);
      }
    }
    const keepsOpen = action === "send" || action === "custom";
    return keepsOpen && isClientFault && this.strike(context.ws) >= this.closeAfter ? "close" : action;
  }

  /** Counts a rejected message of a connection, and returns how many there were recently. */
  private strike(ws: object): number {
    if (this.closeAfter === Number.POSITIVE_INFINITY) return 0;
    const now = this.clock.now();
    const { count, lastAt } = this.strikes.get(ws) ?? { count: 0, lastAt: 0 };
    const strikes = now - lastAt < STRIKES_EXPIRE_MS ? count + 1 : 1;
    this.strikes.set(ws, { count: strikes, lastAt: now });
    return strikes;
  }

  private close(ws: object, info: LimitExceeded): void {
    this.closed.add(ws);
    try {
      (ws as ClosableSocket).close?.(this.closeCodes[info.action === "ban" ? "ban" : "rate"], closeReason(info));
    } catch (error) {
      this.reportError(error);
    }
  }
}
