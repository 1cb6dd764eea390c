/** Determines the scope of a request: the verified identity that owns its keys. */
import { optionError } from "../../base/errors.ts";
import { andThen, type MaybePromise } from "../../base/maybe-promise.ts";
import type { ReadHeader, Warn } from "../../http/identity/client-ip.ts";
import { identifier } from "../../http/identity/client-key.ts";
import type { Reports } from "../gate/reports.ts";
import type { HandlerArgs, RequestReader } from "../gate/request-reader.ts";
import type { IdempotencyConfig } from "./options.ts";

/** Returns the scope of a request; `undefined` if its client is not identified. */
export type ScopeOf<Args extends HandlerArgs> = (args: Args) => MaybePromise<string | undefined>;

/** Validates `identity`, and returns the function that applies it or `scope`. */
export function scopeOf<Args extends HandlerArgs>(
  { scope, identity }: IdempotencyConfig<Args>,
  reader: RequestReader<Args>,
  reports: Reports<Args>,
): ScopeOf<Args> {
  if (scope !== undefined) return (args) => andThen(scope(...args), checkScope);
  const warn: Warn = (message, args = [], code, details) => reports.warn(message, args as Args, code, details);
  const { user, apiKey } = identifier(identity ?? "peer", warn);
  if (!user && !apiKey) return () => undefined;
  return async (args) => {
    const header: ReadHeader = (name) => reader.header(args, name);
    return (await user?.(header, args)) ?? (await apiKey?.(header, args));
  };
}

/** An empty scope would be one scope for all clients without an identity. */
function checkScope(scope: unknown): string | undefined {
  if (scope === undefined || scope === null || scope === "") return undefined;
  if (typeof scope === "string") return scope;
  // Without the received value, which may be a whole user.
  throw optionError("invalid-option", "scope", "a function that returns a string or undefined");
}
