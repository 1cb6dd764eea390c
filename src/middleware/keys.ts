/** Whose budget a request spends. */
import { SluiceError } from "../core/errors.ts";
import { andThen, type MaybePromise } from "../core/maybe-promise.ts";
import type { ReadHeader } from "../http/client-ip.ts";
import { type Identify, identifier } from "../http/client-key.ts";
import { presets } from "../http/presets.ts";
import { type OnEvent, tell } from "../limiter/events.ts";
import type { Facts } from "./facts.ts";
import { keyWatch } from "./key-watch.ts";
import type { RateLimitOptions } from "./options.ts";

/** The key of a request: the application's own, or that of the client. */
export function keysOf<Call extends readonly unknown[], L>(
  options: RateLimitOptions<Call, L>,
  facts: Facts<Call>,
): (call: Call) => MaybePromise<string> {
  return options.key ? watched(options.key, options.onEvent) : clientsOf(options, facts);
}

/** A key of the application, and a warning if it is new with almost every request. */
function watched<Call extends readonly unknown[]>(
  key: (...call: Call) => MaybePromise<string>,
  onEvent: OnEvent | undefined,
): (call: Call) => MaybePromise<string> {
  if (!onEvent) return (call) => key(...call);
  const watch = keyWatch((message) => tell(onEvent, { type: "warning", policy: "", message }));
  const seen = (key: string): string => {
    watch(key);
    return key;
  };
  return (call) => andThen(key(...call), seen);
}

/** Clients as the identity tells them apart. */
function clientsOf<Call extends readonly unknown[], L>(
  { identity, onEvent }: RateLimitOptions<Call, L>,
  facts: Facts<Call>,
): (call: Call) => MaybePromise<string> {
  if (identity === undefined && facts.peerless) {
    const names = Object.keys(presets).join(", ");
    const expected = `the platform in front (one of ${names}), proxies as { trustedProxies }, or a key: there are no sockets here`;
    throw new SluiceError("invalid-option", "identity", expected, identity);
  }
  const warn = (message: string): void => tell(onEvent, { type: "warning", policy: "", message });
  const identify: Identify = identifier(identity ?? "peer", warn);
  let mayWarn = identity === undefined && onEvent !== undefined;
  return (call) => {
    const header: ReadHeader = (name) => facts.header(call, name);
    if (mayWarn && (header("x-forwarded-for") ?? header("forwarded")) !== undefined) {
      mayWarn = false;
      warn("requests come through a proxy, whose clients share one bucket: name the proxy in identity");
    }
    return identify(facts.peer(call), header);
  };
}
