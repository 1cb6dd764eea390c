/** A set of keys that keeps only HMAC tags of them. */
import { SluiceError } from "../../base/errors.ts";
import type { Steps } from "../../base/slices.ts";
import { networkOf, readRange } from "../../http/identity/address.ts";
import { UNIDENTIFIED } from "../../http/identity/client-key.ts";
import { keyHmac } from "./key-hmac.ts";
import { RangeBuilder, type SortedRanges } from "./sorted-ranges.ts";

/** A set of keys such as `user:42`. */
export class KeySet {
  /** The kinds of its keys, such as `user`. */
  readonly kinds: readonly string[];
  private readonly tags: SortedRanges;

  constructor(kinds: readonly string[], tags: SortedRanges) {
    this.kinds = kinds;
    this.tags = tags;
  }

  has(key: string): boolean {
    return this.tags.length > 0 && this.tags.has(tagOf(key));
  }
}

/** Keys that were checked and are not hashed yet. */
export interface ParsedKeys {
  readonly keys: readonly string[];
  readonly kinds: readonly string[];
}

const MAX_KEYS = 1_000_000;
const MAX_KEY_CHARS = 1024;
/** Kinds of keys in one list. A request is looked up once per kind. */
const MAX_KINDS = 16;
/** Keys that are hashed between two steps. */
const HASHED_PER_STEP = 32;
/** Keys that are checked between two steps. */
const CHECKED_PER_STEP = 512;

/** A kind, a colon and a value. */
const KEY = /^[A-Za-z][\w+-]{0,63}:./s;

/** Checks keys. `option` is the name of their array. Errors never contain a key. */
export function* parseKeys(keys: readonly unknown[], option: string): Steps<ParsedKeys> {
  if (keys.length > MAX_KEYS) throw keyError(`the list has more than ${MAX_KEYS} keys.`);
  // A copy, because the application may change its array between two steps.
  const copy = Array.from(keys);
  const parsed: string[] = [];
  const kinds = new Set<string>();
  for (const [i, entry] of copy.entries()) {
    if (i % CHECKED_PER_STEP === 0) yield;
    const key = canonicalKey(entry, `${option}[${i}]`);
    parsed.push(key);
    kinds.add(key.slice(0, key.indexOf(":")));
    if (kinds.size > MAX_KINDS) throw keyError(`the list has more than ${MAX_KINDS} kinds of keys.`);
  }
  return { keys: parsed, kinds: [...kinds] };
}

/** Builds a set of keys. */
export function* hashKeys({ keys, kinds }: ParsedKeys): Steps<KeySet> {
  const tags = new RangeBuilder(4);
  for (const [i, key] of keys.entries()) {
    if (i % HASHED_PER_STEP === 0) yield;
    tags.add(tagOf(key), 128);
  }
  return new KeySet(kinds, yield* tags.build());
}

function canonicalKey(key: unknown, where: string): string {
  if (typeof key !== "string" || key.length > MAX_KEY_CHARS || !KEY.test(key)) {
    throw keyError(`${where} must be a kind, a colon and a value, such as "user:42" or "key:acme".`);
  }
  return key.startsWith("ip:") ? canonicalIpKey(key, where) : key;
}

/** The key of an IP address as `identity` writes it. Other spellings would never match. */
function canonicalIpKey(key: string, where: string): string {
  if (key === UNIDENTIFIED) return key;
  const range = readRange(key.slice("ip:".length));
  if (typeof range !== "string") {
    const [base, prefix] = range;
    const isKey = base.kind() === "ipv4" ? prefix === 32 : prefix >= MIN_IPV6_PREFIX && prefix <= MAX_IPV6_PREFIX;
    if (isKey) return `ip:${networkOf(base, prefix)}`;
  }
  throw keyError(
    `${where} must be the key of an IP address, such as "ip:203.0.113.7" or "ip:2001:db8::/56". Use ipList for other ranges.`,
  );
}

/** The values of `ipv6Prefix` that `identity` accepts. */
const MIN_IPV6_PREFIX = 32;
const MAX_IPV6_PREFIX = 64;

function keyError(problem: string): SluiceError {
  const expected = 'keys such as "user:42" or "key:acme"';
  return new SluiceError("invalid-option", `keyList: ${problem}`, { option: "source", expected });
}

let hash: ((key: string) => Uint8Array) | undefined;

/** The HMAC tag of a key, as four numbers of 32 bits. The secret is a random one of this process. */
function tagOf(key: string): Uint32Array {
  hash ??= keyHmac(crypto.getRandomValues(new Uint8Array(32)));
  const tag = hash(key);
  const view = new DataView(tag.buffer, tag.byteOffset, tag.byteLength);
  return Uint32Array.of(view.getUint32(0), view.getUint32(4), view.getUint32(8), view.getUint32(12));
}
