/** Remembers the peer of a request that waits before its key is known: a closed socket has no address. */
import { isPromise, type MaybePromise } from "../../base/maybe-promise.ts";
import { createObjectField } from "../../base/object-field.ts";
import { shared } from "../../base/shared-state.ts";
import type { HandlerArgs, RequestReader } from "./request-reader.ts";

/** Kept with the first argument of the middleware. */
const peers = /* @__PURE__ */ shared("peers", createObjectField<string>);

/** Records the peer of a request, if it has one. */
export function recordPeer<Args extends HandlerArgs>(reader: RequestReader<Args>, args: Args): void {
  try {
    const peer = reader.peer(args);
    if (peer !== undefined) peers.set(args[0] as object, peer);
  } catch {
    // A call without a request, which is an error only if its key is that of the client.
  }
}

/** Records the peer of a request if a value is a promise. Returns the value. */
export function beforeAwait<Args extends HandlerArgs, T>(
  reader: RequestReader<Args>,
  args: Args,
  value: MaybePromise<T>,
): MaybePromise<T> {
  if (isPromise(value)) recordPeer(reader, args);
  return value;
}

/** The reader, whose requests keep the peer that was recorded. */
export function withRecordedPeers<Args extends HandlerArgs>(reader: RequestReader<Args>): RequestReader<Args> {
  return { ...reader, peer: (args) => reader.peer(args) ?? peers.get(args[0] as object) };
}
