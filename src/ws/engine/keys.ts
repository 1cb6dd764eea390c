/**
 * Keys for frames, made only of data that the server verified, never of data that the client sent. Parts are escaped, which
 * keeps different parts from producing the same key.
 */
import { copyKey } from "../../base/copy-key.ts";
import { SluiceError } from "../../base/errors.ts";
import { emitProcessWarning } from "../../base/warnings.ts";
import { watchKeys } from "../../http/key-cardinality.ts";

/** Input of the key functions: the `Ingress` of a frame, or a ws-kit context, which has a `clientId`. */
export interface KeyContext {
  /** The type of the frame. */
  readonly type: string;
  /** The id of the connection. */
  readonly id?: string | undefined;
  /** The id of the connection in ws-kit. */
  readonly clientId?: string | undefined;
  /** The client's IP address, if known. */
  readonly ip?: string | undefined;
  /** The data of the connection. Only `userId` and `tenantId` are read. */
  readonly data?: unknown;
  /** The socket of the connection. Its data is read as well, if there is any. */
  readonly ws?: object | undefined;
}

/** One bucket per user and frame type. Without a user it is per IP address, and without an address per connection. */
export function keyPerUserOrIpPerType(context: KeyContext): string {
  return `${tenantOf(context)}:${userOf(context) ?? addressOf(context) ?? connectionOf(context)}:${part(context.type)}`;
}

/** One bucket per user and frame type. Without a user it is per connection. */
export function keyPerUserPerType(context: KeyContext): string {
  return `${tenantOf(context)}:${userOf(context) ?? connectionOf(context)}:${part(context.type)}`;
}

/** One bucket per user for all frame types. Without a user it is per connection. */
export function perUserKey(context: KeyContext): string {
  return `${tenantOf(context)}:${userOf(context) ?? connectionOf(context)}`;
}

/** The same as `perUserKey`, under the name that ws-kit uses. @alias */
export const keyPerUser: (context: KeyContext) => string = perUserKey;

/** Bounds of the cache per connection: clients can send any number of types, of any length. */
const MAX_CACHED_TYPES = 64;
const MAX_CACHED_TYPE_CHARS = 128;

/** Caches the keys of one connection: building a string per frame would cost more than the decision. */
export class KeyCache {
  private userId: unknown;
  private tenantId: unknown;
  private readonly keys: Map<(context: never) => string, Map<string, string>> = new Map();

  /** Returns `makeKey(context)`. Only the key functions of this file are cached: others may depend on anything. */
  keyOf<Context extends KeyContext>(makeKey: (context: Context) => string, context: Context): string {
    if (!CACHEABLE.has(makeKey)) return makeKey(context);
    const userId = memberOf(context, "userId");
    const tenantId = memberOf(context, "tenantId");
    if (userId !== this.userId || tenantId !== this.tenantId) {
      this.keys.clear();
      this.userId = userId;
      this.tenantId = tenantId;
    }
    let byType = this.keys.get(makeKey);
    if (!byType) this.keys.set(makeKey, (byType = new Map()));
    let key = byType.get(context.type);
    if (key !== undefined) return key;
    key = makeKey(context);
    if (byType.size < MAX_CACHED_TYPES && context.type.length <= MAX_CACHED_TYPE_CHARS) {
      byType.set(copyKey(context.type), copyKey(key));
    }
    return key;
  }
}

const CACHEABLE: ReadonlySet<unknown> = new Set([keyPerUserOrIpPerType, keyPerUserPerType, perUserKey]);

/** A key function of the application that warns once about keys that do not distinguish clients. */
export function watchedKey<Context extends KeyContext>(makeKey: (context: Context) => string): typeof makeKey {
  if (CACHEABLE.has(makeKey)) return makeKey;
  const warn = (message: string): void => emitProcessWarning("SLUICE_MISUSE", message);
  const watch = watchKeys<undefined>(warn, { of: "messages", isEager: true });
  return (context) => {
    const key = makeKey(context);
    watch(key, undefined);
    return key;
  };
}

/** Returns the key of the verified user and tenant in a connection's data, if there is one. */
export function userKey(data: unknown): string | undefined {
  const user = userOf({ type: "", data });
  return user && `${tenantOf({ type: "", data })}:${user}`;
}

function tenantOf(context: KeyContext): string {
  return part(nameOf(memberOf(context, "tenantId")) ?? "public");
}

/** A member of the connection's data: that of the context, or that of its socket. */
function memberOf({ data, ws }: KeyContext, name: "userId" | "tenantId"): unknown {
  const own = (data as { userId?: unknown; tenantId?: unknown } | null | undefined)?.[name];
  if (own !== undefined || ws === undefined) return own;
  return (ws as { data?: { userId?: unknown; tenantId?: unknown } }).data?.[name];
}

function userOf(context: KeyContext): string | undefined {
  const name = nameOf(memberOf(context, "userId"));
  return name === undefined ? undefined : `user:${part(name)}`;
}

function addressOf({ ip }: KeyContext): string | undefined {
  return ip ? `ip:${part(ip)}` : undefined;
}

/** Throws without an id: a shared bucket would let one anonymous client lock out all others. */
function connectionOf({ id = "", clientId = id }: KeyContext): string {
  if (clientId !== "") return `connection:${part(clientId)}`;
  const expected = "a user, an IP address or a connection id";
  throw new SluiceError("unidentified", `A key needs ${expected}, but the context has none of them.`, {
    option: "key",
    expected,
  });
}

/** Accepts strings and numbers only: other values, such as objects or NaN, would be the same name for all users. */
function nameOf(value: unknown): string | undefined {
  if (typeof value === "string" && value !== "") return value;
  return Number.isFinite(value) || typeof value === "bigint" ? String(value) : undefined;
}

function part(text: string): string {
  return /[:%]/.test(text) ? text.replaceAll("%", "%25").replaceAll(":", "%3A") : text;
}
