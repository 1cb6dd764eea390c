/** Who may see the dashboard: checks of the browser's headers, `authorize`, and a limit. */

import { monotonicMs } from "../../base/clock.ts";
import type { MaybePromise } from "../../base/maybe-promise.ts";
import { describeError, emitProcessWarning } from "../../base/warnings.ts";
import { decide } from "../../core/decide.ts";
import type { State } from "../../core/state.ts";
import { compilePolicy } from "../../policy/compile-policy.ts";

/** Decides whether a request may see the dashboard. */
export type Authorize = (request: Request) => MaybePromise<boolean>;

/** The host that a request was sent to, with its port. The header is what the client sent; some runtimes change the URL. */
export function hostOf(request: Request): string {
  return (request.headers.get("host") ?? new URL(request.url).host).toLowerCase();
}

/**
 * Whether a browser sent the request for another site's page. Other clients send none of these headers.
 * `isPage`: the request is for the page itself, which links may lead to.
 */
export function isForeign(request: Request, isPage: boolean): boolean {
  const { headers, method } = request;
  const origin = headers.get("origin");
  if (origin !== null && !isOriginOf(origin, hostOf(request))) return true;
  const site = headers.get("sec-fetch-site");
  if (site === null || site === "same-origin" || site === "none") return false;
  const isNavigation = headers.get("sec-fetch-mode") === "navigate" && headers.get("sec-fetch-dest") === "document";
  return !(isPage && method === "GET" && isNavigation);
}

/** Whether an origin has this host. Schemes are not compared: TLS may end at a proxy. */
function isOriginOf(origin: string, host: string): boolean {
  try {
    const { protocol, host: own } = new URL(origin);
    // Parsed with the same scheme, so that a default port is removed from both.
    return own !== "" && own === new URL(`${protocol}//${host}`).host;
  } catch {
    return false;
  }
}

/** Calls `authorize`. Only `true` authorises: a function that throws, or returns another value, does not. */
export function authorizer(authorize: Authorize): (request: Request) => Promise<boolean> {
  let hasWarned = false;
  return async (request) => {
    try {
      return (await authorize(request)) === true;
    } catch (error) {
      if (!hasWarned) {
        hasWarned = true;
        const message = `authorize of dashboard threw "${describeError(error)}". Requests get a 403 while it throws.`;
        emitProcessWarning("SLUICE_CALLBACK_FAILED", message);
      }
      return false;
    }
  };
}

/** Creates the limit on requests that are authorised. Strangers can't use it up. Returns the wait in ms, or 0. */
export function requestLimit(): () => number {
  const policy = compilePolicy("10/s burst 50");
  let state: State | undefined;
  return () => {
    const decided = decide(state, { policy, key: "", cost: 1, mode: "take" }, Math.floor(monotonicMs()));
    state = decided.state;
    return decided.decision.retryAfterMs ?? 0;
  };
}
