/** Keeps what a request holds while its handler runs, also after the client has disconnected. */
import type { OnFinish } from "./gate-result.ts";
import type { RequestDecision, RequestOutcome } from "./options.ts";

/** How long a handler may run on after its client has disconnected, with its hold and until its response is stored, in ms. */
export const MAX_AFTER_DISCONNECT_MS = 60_000;

/** What ends the holds of a request. */
interface HoldEnd {
  /** Settles what is held. */
  end(outcome: RequestOutcome): Promise<void>;
  /** Frees leases that are held apart from amounts. Default: all is one hold. */
  endLeases?(): void;
  /** Stops to renew what is held. */
  stopRenewing(): void;
  /** Whether only `settle` of the decision knows the cost. If not, the end of the handler is enough. */
  readonly awaitsCost: boolean;
  /** Whether a timer runs after the response. Without one, the hold ends with its lease. */
  readonly hasTimers: boolean;
}

/**
 * Ends the holds of a request when it is finished. After a disconnect they end when the handler has ended and has called
 * `settle` if only it knows the cost, at most a minute later: otherwise a client could leave to free its slot, or to pay
 * less than it has used. A handler may call `settle` repeatedly, with a running total.
 */
export function endHolds(decision: RequestDecision, holdEnd: HoldEnd): OnFinish {
  const { end, awaitsCost, hasTimers } = holdEnd;
  const { settle } = decision;
  let hasSettled = false;
  let isFinished = false;
  /** Called when the cost was reported, once the handler has ended. */
  let release: (() => void) | undefined;
  if (settle) {
    decision.settle = (actual) => {
      settle(actual);
      hasSettled = true;
      release?.();
    };
  }
  const finish: OnFinish = async (outcome, handler) => {
    if (isFinished) return;
    isFinished = true;
    const isComplete = (): boolean => hasSettled || !awaitsCost;
    if (!outcome.aborted || !handler || (handler === "returned" && isComplete())) return end(outcome);
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isReleased = false;
    const endOnce = (): void => {
      if (isReleased) return;
      isReleased = true;
      clearTimeout(timer);
      void end(outcome);
    };
    if (handler === "unseen") {
      // Ends with its lease, unless the cost is reported before.
      release = endOnce;
      if (hasSettled) endOnce();
      else holdEnd.stopRenewing();
      return;
    }
    const ended = (): void => {
      release = endOnce;
      if (isComplete()) endOnce();
      else holdEnd.endLeases?.();
    };
    if (handler === "returned") ended();
    else handler.then(ended, ended);
    if (!hasTimers) return;
    timer = setTimeout(endOnce, MAX_AFTER_DISCONNECT_MS);
    (timer as { unref?(): void }).unref?.();
  };
  return Object.assign(finish, { stopRenewing: () => holdEnd.stopRenewing() });
}
