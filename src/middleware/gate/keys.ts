/** Whose budget a request spends. */
import { optionError, SluiceError } from "../../core/errors.ts";
import { isPromise, type MaybePromise } from "../../core/maybe-promise.ts";
import { privateAddress } from "../../http/identity/address.ts";
import type { ReadHeader, Warn } from "../../http/identity/client-ip.ts";
import { identifier, UNIDENTIFIED } from "../../http/identity/client-key.ts";
import { presets } from "../../http/identity/presets.ts";
import { keyWatch } from "./key-cardinality.ts";
import type { RateLimitOptions } from "./options.ts";
import type { Reports } from "./reports.ts";
import type { RequestReader } from "./request-reader.ts";

/** The keys of requests. */
export interface Keys<Call extends readonly unknown[]> {
  /** The key of a request: the application's own, or that of the client. */
  client(call: Call): MaybePromise<string>;
  /** The key of its IP address, whatever credentials it has. */
  address(call: Call): string;
  /** Called when the IP address has used up a budget: warns if it is that of a proxy, and not of a client. */
  exhausted?(call: Call): void;
}

export function keysOf<Call extends readonly unknown[], L>(
  options: RateLimitOptions<Call, L>,
  facts: RequestReader<Call>,
  reports: Reports<Call>,
): Keys<Call> {
  const { key, identity, onEvent } = options;
  if (key === undefined && identity === undefined && facts.peerless) {
    const names = Object.keys(presets).join(", ");
    const expected = `the platform in front (one of ${names}), proxies as { trustedProxies }, or a key: there are no sockets here`;
    throw optionError("invalid-option", "identity", expected, identity);
  }
  const warn: Warn = (message, call, code) => reports.warn(message, call as Call, code);
  // With a key, nothing else is known of the client, and a preflight may come without an address.
  const identify = identifier(key ? { unidentified: "share" } : (identity ?? "peer"), warn);
  const headerOf = (call: Call): ReadHeader => {
    return (name) => facts.header(call, name);
  };
  const address = (call: Call): string => {
    try {
      return identify.address(facts.peer(call), headerOf(call), call);
    } catch (error) {
      // A preflight has no credentials: an error would reject it where users are known by token and need no address.
      if (error instanceof SluiceError && error.code === "unidentified") return UNIDENTIFIED;
      throw error;
    }
  };
  const warnOfPreflights = (reason: string, call: Call): void => {
    const message = `A CORS preflight was rejected: ${reason} share one budget. Answer preflights before rateLimit, or raise the option preflight.`;
    warn(message, call, "SLUICE_UNTRUSTED_PROXY");
  };
  if (key) {
    const watchProxy = proxyWatch(facts, (proxy, call) =>
      warnOfPreflights(`with key, all preflights through the proxy ${proxy}`, call),
    );
    let isReported = false;
    const exhausted = (call: Call): void => {
      if (facts.peer(call) !== undefined) watchProxy(call);
      else if (!isReported) {
        isReported = true;
        warnOfPreflights("with key and without a socket, all preflights", call);
      }
    };
    return { client: watched(key, keyWatch(warn, onEvent !== undefined)), address, exhausted };
  }
  const warnOfProxy = (proxy: string, call: Call): void => {
    const message = `Requests come through a proxy that identity does not name, so all of its clients share one bucket. Set identity: { trustedProxies: ["${proxy}"] }, or identity: "cloudflare" or another platform.`;
    warn(message, call, "SLUICE_UNTRUSTED_PROXY");
  };
  const watchProxy = identity === undefined ? proxyWatch(facts, warnOfProxy) : undefined;
  return {
    address,
    client(call) {
      watchProxy?.(call);
      return identify.client(facts.peer(call), headerOf(call), call);
    },
  };
}

function watched<Call extends readonly unknown[]>(
  key: (...call: Call) => MaybePromise<string>,
  watch: (key: string, call: Call) => void,
): (call: Call) => MaybePromise<string> {
  const seen = (key: string, call: Call): string => {
    watch(key, call);
    return key;
  };
  return (call) => {
    const own = key(...call);
    return isPromise(own) ? own.then((own) => seen(own, call)) : seen(own, call);
  };
}

/** Requests whose headers are read one after the other; after them, one of 256: a proxy may be added later. */
const PROXY_SAMPLE = 1000;

/** Calls `warn` once if requests come through a proxy. A public peer may have made the header up. */
function proxyWatch<Call extends readonly unknown[]>(
  facts: RequestReader<Call>,
  warn: (proxy: string, call: Call) => void,
): (call: Call) => void {
  let count = 0;
  return (call) => {
    if (count < 0 || (++count > PROXY_SAMPLE && (count & 255) !== 0)) return;
    if ((facts.header(call, "x-forwarded-for") ?? facts.header(call, "forwarded")) === undefined) return;
    const proxy = privateAddress(facts.peer(call));
    if (proxy === undefined) return;
    count = -1;
    warn(proxy, call);
  };
}
