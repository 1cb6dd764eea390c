/**
 * Who a verified JSON Web Token speaks of. A token that is not proved right names nobody: there is no way here to read
 * one without verifying it.
 */
import { monotonicMs } from "../../core/clock.ts";
import { optionError } from "../../core/errors.ts";
import { checkOptions } from "../../core/options.ts";
import type { ReadHeader, Warn } from "./client-ip.ts";

/** How tokens are verified. Give `secret` or `jwks`. */
export interface JwtOptions {
  /** The only algorithms that are accepted, such as `["RS256"]`. Required: the token must not choose. */
  algorithms: readonly string[];
  /** The secret of HS256, HS384 or HS512: at least 32 bytes. */
  secret?: string | Uint8Array;
  /** The public keys: the address of a JWKS, as a text or a `URL`, or the set itself. */
  jwks?: string | { readonly href: string } | { readonly keys: readonly object[] };
  /** Who must have issued the token. Default: anyone who has the key. */
  issuer?: string;
  /** For whom the token must be. Default: anyone. */
  audience?: string | readonly string[];
  /** The claim that names the client: a user, or a tenant. Default: `sub`. */
  claim?: string;
  /** Where the token is. Default: in `Authorization: Bearer`. */
  token?: (header: ReadHeader) => string | undefined;
  /** The module `jose` as a namespace, for bundles that can not load it by themselves. Default: loaded on first use. */
  jose?: JoseLike;
}

/** What is used of the package `jose`. Its keys have types of their own, and are made by jose itself. */
export interface JoseLike {
  jwtVerify(token: string, key: never, options: object): Promise<{ payload: Record<string, unknown> }>;
  createRemoteJWKSet(url: never, options: { timeoutDuration: number }): unknown;
  createLocalJWKSet(jwks: never): unknown;
}

/** Timeout for fetching a key set, and the pause before it is fetched again after a failure. */
const TIMEOUT_MS = 2000;
const REFETCH_PAUSE_MS = 5000;
/** Keys of a remote set that are cached. Only keys that the set really has are, so that no set comes near. */
const MAX_CACHED_KEYS = 1000;
/** A token longer than this is not worth the work. */
const MAX_LENGTH = 8192;
/** The algorithms whose key is a secret have a key of their own kind: one list may not mix them. */
const WITH_SECRET = /^HS(?:256|384|512)$/;
const WITH_PUBLIC_KEY = /^(?:(?:RS|PS|ES)(?:256|384|512)|ES256K|EdDSA|Ed25519|ML-DSA-\d+)$/;

/** Makes the function that tells the client's key from a request's token, or `undefined`. */
export function jwtSubject(
  options: JwtOptions,
  warn: Warn,
): (header: ReadHeader, context: unknown) => Promise<string | undefined> | undefined {
  const { claim, expected, keyFrom } = checkJwt(options);
  const { token: tokenOf = bearerToken } = options;
  let warned = false;
  const keysFetched = (): void => {
    warned = false;
  };
  let ready: Promise<{ jose: JoseLike; key: unknown }> | undefined;
  const verify = async (token: string, context: unknown): Promise<string | undefined> => {
    ready ??= loadJose(options.jose).then((jose) => ({ jose, key: keyFrom(jose, keysFetched) }));
    const { jose, key } = await ready;
    const verified = await jose.jwtVerify(token, key as never, expected).catch((error: unknown) => {
      // Whatever is wrong with a token is the client's doing, and its address is all that is known of it then.
      if (isOfToken(error)) return undefined;
      if (!warned) warn(`tokens can't be verified, so that users count by address: ${error}`, context);
      warned = true;
      return undefined;
    });
    const subject = verified?.payload[claim];
    // JSON has numbers that are no integers, and 1e999 is Infinity: they would be one user.
    const named = (typeof subject === "string" && subject !== "") || Number.isSafeInteger(subject);
    return named ? `user${claim === "sub" ? "" : `/${claim}`}:${subject}` : undefined;
  };
  return (header, context) => {
    const token = tokenOf(header);
    return token !== undefined && token !== "" && token.length <= MAX_LENGTH ? verify(token, context) : undefined;
  };
}

/** Whether a token is at fault, and not the keys: those may be out of reach. */
function isOfToken(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return typeof code === "string" && /^ERR_(?:JW[TS]_|JOSE_(?:ALG|NOT)|JWKS_(?:NO|MULTIPLE)_)/.test(code);
}

function bearerToken(header: ReadHeader): string | undefined {
  return /^Bearer +([^ ]+)$/i.exec(header("authorization") ?? "")?.[1];
}

async function loadJose(given: JoseLike | undefined): Promise<JoseLike> {
  if (given) return given;
  try {
    return (await import("jose")) as JoseLike;
  } catch (cause) {
    const expected = "the package jose to be installed (npm install jose), or given as jwt.jose";
    throw Object.assign(optionError("invalid-option", "jwt", expected), { cause });
  }
}

interface Checked {
  claim: string;
  /** What jose holds a token against. */
  expected: object;
  /** `fetched` is called when a key set was fetched again after a failure. */
  keyFrom(jose: JoseLike, fetched: () => void): unknown;
}

function checkJwt(options: JwtOptions): Checked {
  checkOptions("jwt", options, ["algorithms", "secret", "jwks", "issuer", "audience", "claim", "token", "jose"]);
  const { algorithms, secret, jwks, issuer, audience, claim = "sub" } = options;
  if ((secret === undefined) === (jwks === undefined)) {
    throw optionError("invalid-option", "jwt", "either secret or jwks");
  }
  const fitting = secret === undefined ? WITH_PUBLIC_KEY : WITH_SECRET;
  const fits = (name: unknown) => typeof name === "string" && fitting.test(name);
  if (!Array.isArray(algorithms) || algorithms.length === 0 || !algorithms.every(fits)) {
    const like = secret === undefined ? "RS256, ES256 or EdDSA beside jwks" : "HS256, HS384 or HS512 beside secret";
    const wrong = Array.isArray(algorithms) ? algorithms.find((name) => !fits(name)) : algorithms;
    throw optionError("invalid-option", "jwt.algorithms", `a list of algorithms such as ${like}`, wrong);
  }
  const audiences: readonly unknown[] = Array.isArray(audience) && audience.length > 0 ? audience : [audience];
  for (const [option, value] of [
    ["issuer", issuer],
    ["claim", claim],
    ...audiences.map((one) => ["audience", one]),
  ] as const) {
    if (value === undefined || (typeof value === "string" && value !== "")) continue;
    throw optionError("invalid-option", `jwt.${option}`, "a text that is not empty", value);
  }
  if (options.token !== undefined && typeof options.token !== "function") {
    throw optionError("invalid-option", "jwt.token", "a function that finds the token", options.token);
  }
  const expected = {
    algorithms,
    requiredClaims: [claim],
    ...(issuer === undefined ? {} : { issuer }),
    ...(audience === undefined ? {} : { audience }),
  };
  return { claim, expected, keyFrom: secret === undefined ? keySet(jwks) : secretKey(secret) };
}

function secretKey(secret: unknown): Checked["keyFrom"] {
  const bytes = typeof secret === "string" ? new TextEncoder().encode(secret) : secret;
  if (bytes instanceof Uint8Array && bytes.length >= 32) return () => bytes;
  // The value stays out of the message: it is a secret, and messages are logged.
  throw optionError("invalid-option", "jwt.secret", "at least 32 bytes (RFC 7518, 3.2)");
}

function keySet(jwks: unknown): Checked["keyFrom"] {
  const address = typeof jwks === "string" ? jwks : (jwks as { href?: unknown } | null)?.href;
  if (typeof address === "string") {
    const url = URL.canParse(address) ? new URL(address) : undefined;
    const local = url?.hostname === "localhost" || url?.hostname === "127.0.0.1" || url?.hostname === "[::1]";
    if (url?.protocol === "https:" || (url?.protocol === "http:" && local))
      return (jose, fetched) =>
        cachingKeys(jose.createRemoteJWKSet(url as never, { timeoutDuration: TIMEOUT_MS }) as FindKey, fetched);
    throw optionError("invalid-option", "jwt.jwks", "an https address, or a set of keys", address);
  }
  if (Array.isArray((jwks as { keys?: unknown } | null)?.keys)) return (jose) => jose.createLocalJWKSet(jwks as never);
  throw optionError("invalid-option", "jwt.jwks", "an https address, or a set of keys", jwks);
}

/** Finds the key of a token, as jose calls it. */
type FindKey = (header: { alg?: string; kid?: string }, token: unknown) => Promise<unknown>;

/**
 * Keys of a remote set that keep working while the set can't be fetched. A token with an unknown key id makes jose fetch
 * the set: after a failure only that pauses. Otherwise anyone could stop the verification of all tokens during an outage.
 */
function cachingKeys(findKey: FindKey, fetched: () => void): FindKey {
  const cached = new Map<string, unknown>();
  let failed = false;
  let pausedUntil = -Infinity;
  let pending = 0;
  return async (header, token) => {
    const id = JSON.stringify([header.alg, header.kid]);
    const known = cached.get(id);
    const paused = monotonicMs() < pausedUntil;
    // One request finds out whether the set can be fetched; the others do not wait for it.
    if (known !== undefined && (paused || pending > 0)) return known;
    if (paused) throw UNKNOWN_KEY;
    pending++;
    try {
      const key = await findKey(header, token);
      if (failed && known === undefined) recovered();
      if (cached.size >= MAX_CACHED_KEYS) cached.clear();
      cached.set(id, key);
      return key;
    } catch (error) {
      if (isOfToken(error)) {
        // The set was fetched and has no such key: it may have been withdrawn.
        cached.delete(id);
        if (failed) recovered();
        throw error;
      }
      failed = true;
      pausedUntil = monotonicMs() + REFETCH_PAUSE_MS;
      if (known !== undefined) return known;
      throw error;
    } finally {
      pending--;
    }
  };

  function recovered(): void {
    failed = false;
    fetched();
  }
}

/** Thrown without a stack of its own: a flood of unknown tokens during an outage would allocate one each. */
const UNKNOWN_KEY = { code: "ERR_JWKS_NO_MATCHING_KEY" };
