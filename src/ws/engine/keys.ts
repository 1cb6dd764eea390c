/**
 * Keys of frames, from what the server knows of a connection and never from what a client says of itself. Parts are
 * escaped, so that no two of them run together.
 */
import { copyKey } from "../../core/copy-key.ts";
import { optionError } from "../../core/errors.ts";

/** What keys are made of: a frame at our door, or a context of ws-kit, which knows a connection as `clientId`. */
export interface KeyContext {
  readonly type: string;
  readonly id?: string | undefined;
  readonly clientId?: string | undefined;
  readonly ip?: string | undefined;
  /** Of its members, `userId` and `tenantId` are read. */
  readonly data?: unknown;
}

/** A bucket for each user and type of frame; who is not known counts by address, and without one by connection. */
export function keyPerUserOrIpPerType(context: KeyContext): string {
  return `${tenantOf(context)}:${userOf(context) ?? addressOf(context) ?? connectionOf(context)}:${part(context.type)}`;
}

/** A bucket for each user and type of frame; who is not known counts by connection. */
export function keyPerUserPerType(context: KeyContext): string {
  return `${tenantOf(context)}:${userOf(context) ?? connectionOf(context)}:${part(context.type)}`;
}

/** One bucket for each user, whatever they send; who is not known counts by connection. */
export function perUserKey(context: KeyContext): string {
  return `${tenantOf(context)}:${userOf(context) ?? connectionOf(context)}`;
}

/** The same as `perUserKey`, by the name that ws-kit has for it. @alias */
export const keyPerUser: (context: KeyContext) => string = perUserKey;

/** More types than this are not remembered, and none that is longer: clients may invent them. */
const MAX_TYPES = 64;
const MAX_TYPE_CHARS = 128;

/** The keys of one connection, made once: a new text with every frame would cost more than the decision. */
export class KeyMemory {
  private userId: unknown;
  private tenantId: unknown;
  private readonly known: Map<(context: never) => string, Map<string, string>> = new Map();

  /** What `make` makes of a frame. Functions that are not ours may make another key each time. */
  keyOf<Context extends KeyContext>(make: (context: Context) => string, context: Context): string {
    if (!OURS.has(make)) return make(context);
    const { userId, tenantId } = (context.data ?? {}) as { userId?: unknown; tenantId?: unknown };
    if (userId !== this.userId || tenantId !== this.tenantId) {
      this.known.clear();
      this.userId = userId;
      this.tenantId = tenantId;
    }
    let keys = this.known.get(make);
    if (!keys) this.known.set(make, (keys = new Map()));
    let key = keys.get(context.type);
    if (key !== undefined) return key;
    key = make(context);
    if (keys.size < MAX_TYPES && context.type.length <= MAX_TYPE_CHARS) keys.set(copyKey(context.type), copyKey(key));
    return key;
  }
}

const OURS: ReadonlySet<unknown> = new Set([keyPerUserOrIpPerType, keyPerUserPerType, perUserKey]);

/** The user that a connection belongs to, with the tenant, once that was verified. */
export function userKey(data: unknown): string | undefined {
  const user = userOf({ type: "", data });
  return user && `${tenantOf({ type: "", data })}:${user}`;
}

function tenantOf({ data }: KeyContext): string {
  return part(nameOf((data as { tenantId?: unknown } | undefined)?.tenantId) ?? "public");
}

function userOf({ data }: KeyContext): string | undefined {
  const name = nameOf((data as { userId?: unknown } | undefined)?.userId);
  return name === undefined ? undefined : `user:${part(name)}`;
}

function addressOf({ ip }: KeyContext): string | undefined {
  return ip ? `ip:${part(ip)}` : undefined;
}

/** Never one bucket for all who are unknown: one of them could lock out the others. */
function connectionOf({ id = "", clientId = id }: KeyContext): string {
  if (clientId !== "") return `connection:${part(clientId)}`;
  throw optionError("unidentified", "key", "a user, an address or the id of a connection, but there is none");
}

/** Whatever else somebody put there, such as an object or a number that is none, would be the same name for everybody. */
function nameOf(value: unknown): string | undefined {
  if (typeof value === "string" && value !== "") return value;
  return Number.isFinite(value) || typeof value === "bigint" ? String(value) : undefined;
}

function part(text: string): string {
  return /[:%]/.test(text) ? text.replaceAll("%", "%25").replaceAll(":", "%3A") : text;
}
