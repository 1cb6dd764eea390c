/**
 * Issues and verifies clearances, `v2.<key id>.<expiry>.<id>.<binding>.<signature>`. Nothing is stored.
 *
 * - The expiry is in milliseconds since the epoch, everything else in lower-case hexadecimal. So every clearance has one
 *   spelling, which base64 would not ensure.
 * - The id has 128 random bits. The binding is an HMAC of the client's network and User-Agent and of the host, which a clearance
 *   therefore does not reveal. Sites with one secret don't accept each other's clearances. The signature is an HMAC of all the text before it.
 */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { wallClockMs } from "../../base/clock.ts";
import { copyKey } from "../../base/copy-key.ts";
import { networkOf, parseAddress, widerNetworkOf } from "../../http/identity/address.ts";

/** Client properties that a clearance is bound to. */
export type BindTo = "network+user-agent" | "user-agent";

/** How clearances are made. */
export interface ClearanceOptions {
  /** Keys, newest first. The first one signs, all of them are accepted. */
  readonly secrets: readonly Uint8Array[];
  readonly ttlMs: number;
  readonly bindTo: BindTo;
}

/** What a clearance is bound to, before it is hashed. */
export interface ClearanceClient {
  readonly ip: string | undefined;
  readonly userAgent: string | undefined;
  /** The host name of the site, in lower case. */
  readonly host: string;
}

/** A new clearance. */
export interface IssuedClearance {
  readonly id: string;
  /** The clearance as text, for the header `Sluice-Clearance`. */
  readonly text: string;
  /** The value of `Set-Cookie`. */
  readonly cookie: string;
}

/** The header that has a clearance of clients without cookies. */
export const CLEARANCE_HEADER = "Sluice-Clearance";

const COOKIE = "__Host-sluice-clearance";
const COOKIES: RegExp = /(?:^|;)[ \t]*__Host-sluice-clearance=([^;]*)/g;
const FORMAT = /^v2\.([0-9a-f]{8})\.([1-9][0-9]{12})\.([0-9a-f]{32})\.([0-9a-f]{32})\.([0-9a-f]{64})$/;
const ID_BYTES = 16;
const BINDING_BYTES = 16;
/** Longer User-Agents are cut, so that a long header costs no more than a short one. */
const MAX_USER_AGENT_CHARS = 512;
const IPV6_PREFIX = 56;

/** One secret, as three keys: an output of one use must never be valid in another. */
interface Key {
  readonly id: string;
  sign(text: string): string;
  bind(text: string): string;
}

/** Issues and verifies clearances. */
export class Clearances {
  private readonly keys: readonly Key[];
  private readonly ttlMs: number;
  private readonly bindTo: BindTo;

  constructor({ secrets, ttlMs, bindTo }: ClearanceOptions) {
    this.keys = secrets.map(deriveKey);
    this.ttlMs = ttlMs;
    this.bindTo = bindTo;
  }

  /** Whether the client has the properties that clearances are bound to. */
  canIssue(client: ClearanceClient): boolean {
    return this.boundText(client) !== undefined;
  }

  /** Issues a clearance; `undefined` if the client's IP address is needed and unknown. */
  issue(client: ClearanceClient): IssuedClearance | undefined {
    const bound = this.boundText(client);
    if (bound === undefined) return undefined;
    const [key] = this.keys as [Key];
    const id = bytesToHex(crypto.getRandomValues(new Uint8Array(ID_BYTES)));
    const signed = `v2.${key.id}.${wallClockMs() + this.ttlMs}.${id}.${key.bind(bound)}`;
    const text = `${signed}.${key.sign(signed)}`;
    const maxAge = Math.ceil(this.ttlMs / 1000);
    return { id, text, cookie: `${COOKIE}=${text}; Path=/; Max-Age=${maxAge}; Secure; HttpOnly; SameSite=Lax` };
  }

  /** The id of a clearance that is valid for this client now. Checks what is cheap first: a flood sends anything. */
  verify(text: string | undefined, client: ClearanceClient): string | undefined {
    const match = text === undefined ? null : FORMAT.exec(text);
    if (!match) return undefined;
    const [whole, keyId, expiry, id = "", binding = "", signature = ""] = match;
    if (Number(expiry) <= wallClockMs()) return undefined;
    const key = this.keys.find((one) => one.id === keyId);
    const bound = this.boundText(client);
    if (!key || bound === undefined) return undefined;
    const signed = whole.slice(0, whole.lastIndexOf("."));
    if (!isEqual(key.sign(signed), signature)) return undefined;
    return isEqual(key.bind(bound), binding) ? copyKey(id) : undefined;
  }

  private boundText({ ip, userAgent = "", host }: ClearanceClient): string | undefined {
    // A line break occurs in none of them, so no two clients have the same text.
    const agent = `${userAgent.slice(0, MAX_USER_AGENT_CHARS)}\n${host}`;
    if (this.bindTo === "user-agent") return `\n${agent}`;
    const address = parseAddress(ip);
    if (!address) return undefined;
    return `${address.kind() === "ipv4" ? widerNetworkOf(address) : networkOf(address, IPV6_PREFIX)}\n${agent}`;
  }
}

/** The clearance of a request: of the header if there is one, else of the cookie. Two cookies are none. */
export function clearanceText(request: { header(name: string): string | undefined }): string | undefined {
  const own = request.header(CLEARANCE_HEADER.toLowerCase());
  if (own !== undefined) return own;
  const cookies = request.header("cookie");
  if (!cookies?.includes(COOKIE)) return undefined;
  // Browsers keep one cookie of this name, because its prefix fixes path and host.
  const [first, second] = [...cookies.matchAll(COOKIES)];
  return second ? undefined : first?.[1];
}

function deriveKey(secret: Uint8Array): Key {
  const derive = (use: string): Uint8Array => hmac(sha256, secret, encoder.encode(`sluice clearance v2 ${use}`));
  const tagger = (use: string): ((text: string) => Uint8Array) => {
    // The hashes of the padded key, computed once.
    const keyed = hmac.create(sha256, derive(use));
    return (text) => keyed.clone().update(encoder.encode(text)).digest();
  };
  const [sign, bind] = [tagger("signature"), tagger("binding")];
  return {
    id: bytesToHex(derive("key id").subarray(0, 4)),
    sign: (text) => bytesToHex(sign(text)),
    bind: (text) => bytesToHex(bind(text).subarray(0, BINDING_BYTES)),
  };
}

const encoder = new TextEncoder();

/** Compares two texts in a time that does not depend on where they differ. */
function isEqual(a: string, b: string): boolean {
  let difference = a.length ^ b.length;
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i);
  return difference === 0;
}
