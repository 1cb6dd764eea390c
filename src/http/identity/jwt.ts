/** Identifies users by verified JSON Web Tokens. Claims of an unverified token are never read. */
import { monotonicMs } from "../../base/clock.ts";
import { optionError, SluiceError } from "../../base/errors.ts";
import { checkOptions } from "../../base/options.ts";
import type { ReadHeader, Warn } from "./client-ip.ts";
import { runsOnWorkers } from "./presets.ts";

/** How tokens are read and verified. Exactly one of `secret` and `jwks` is required. */
export interface JwtOptions {
  /** The accepted algorithms, such as `["RS256"]`. Required, because a token must not choose its own. */
  algorithms: readonly string[];
  /** The secret for HS256, HS384 or HS512, at least 32 bytes. */
  secret?: string | Uint8Array;
  /** The public keys: the URL of a JWKS, or the key set itself. */
  jwks?: string | { readonly href: string } | { readonly keys: readonly object[] };
  /** The required issuer (`iss`). Default: any. */
  issuer?: string;
  /** The required audience (`aud`). Default: any. */
  audience?: string | readonly string[];
  /** The claim that identifies the client, such as a user or a tenant. Default: `sub`. */
  claim?: string;
  /** Returns the token of a request. Default: the one in `Authorization: Bearer`. */
  token?: (header: ReadHeader) => string | undefined;
  /** The module namespace of `jose`, for bundles that can't import it dynamically. Default: imported when the options are read. */
  jose?: JoseLike;
}

/** The functions of the package `jose` that are called. */
export interface JoseLike {
  /** Verifies a token. */
  jwtVerify(token: string, key: never, options: object): Promise<{ payload: Record<string, unknown> }>;
  /** Loads keys from a URL. */
  createRemoteJWKSet(url: never, options: { timeoutDuration: number }): unknown;
  /** Uses keys that are given. */
  createLocalJWKSet(jwks: never): unknown;
}

/** Timeout for fetching a key set, and the pause after a failed attempt. */
const TIMEOUT_MS = 2000;
const REFETCH_PAUSE_MS = 5000;
/** Bounds the cache of a remote key set. Only keys that are in the set are cached. */
const MAX_CACHED_KEYS = 1000;
/** Longer tokens are ignored. */
const MAX_CHARS = 8192;
/** Symmetric and asymmetric algorithms must not be mixed: a public key could be used as a secret. */
const WITH_SECRET = /^HS(?:256|384|512)$/;
const WITH_PUBLIC_KEY = /^(?:(?:RS|PS|ES)(?:256|384|512)|ES256K|EdDSA|Ed25519|ML-DSA-\d+)$/;

/** Returns a function that derives the client's key from the request's token; `undefined` without a valid one. */
export function jwtSubject(
  options: JwtOptions,
  warn: Warn,
): (header: ReadHeader, context: unknown) => Promise<string | undefined> | undefined {
  const { claim, expected, keyFrom } = parseJwtOptions(options);
  const { token: tokenOf = bearerToken } = options;
  let warned = false;
  const keysFetched = (): void => {
    warned = false;
  };
  // Loaded before the first request, so a missing package is reported at the start. Workers load nothing outside of requests.
  const early = options.jose || runsOnWorkers() ? undefined : loadJose(undefined);
  early?.catch(() => warn(NO_JOSE, undefined, "SLUICE_MISUSE"));
  let ready: Promise<{ jose: JoseLike; key: unknown }> | undefined;
  const verify = async (token: string, context: unknown): Promise<string | undefined> => {
    ready ??= (early ?? loadJose(options.jose)).then((jose) => ({ jose, key: keyFrom(jose, keysFetched) }));
    const { jose, key } = await ready;
    const verified = await jose.jwtVerify(token, key as never, expected).catch((error: unknown) => {
      // An invalid token is the client's fault: identify it by its address.
      if (isTokenError(error)) return undefined;
      const message = "Tokens can't be verified, so users are identified by IP address";
      if (!warned) warn(message, context, undefined, `: ${error}`);
      warned = true;
      return undefined;
    });
    const subject = verified?.payload[claim];
    // JSON numbers may be fractions, and 1e999 parses to Infinity: different users would share a key.
    const named = (typeof subject === "string" && subject !== "") || Number.isSafeInteger(subject);
    return named ? `user${claim === "sub" ? "" : `/${claim}`}:${subject}` : undefined;
  };
  return (header, context) => {
    const token = tokenOf(header);
    return token !== undefined && token !== "" && token.length <= MAX_CHARS ? verify(token, context) : undefined;
  };
}

/** Whether an error is caused by the token, and not by keys that can't be fetched. */
function isTokenError(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return typeof code === "string" && /^ERR_(?:JW[TS]_|JOSE_(?:ALG|NOT)|JWKS_(?:NO|MULTIPLE)_)/.test(code);
}

function bearerToken(header: ReadHeader): string | undefined {
  return /^Bearer +([^ ]+)$/i.exec(header("authorization") ?? "")?.[1];
}

const NO_JOSE = "jwt requires the package jose. Run npm install jose, or pass the module as jwt.jose.";

async function loadJose(given: JoseLike | undefined): Promise<JoseLike> {
  if (given) return given;
  try {
    return (await import("jose")) as JoseLike;
  } catch (cause) {
    throw new SluiceError("invalid-option", NO_JOSE, { option: "jwt", expected: "the package jose", cause });
  }
}

interface JwtConfig {
  claim: string;
  /** The options of `jwtVerify`. */
  expected: object;
  /** `onRecovered` is called when a key set could be fetched again after a failure. */
  keyFrom(jose: JoseLike, onRecovered: () => void): unknown;
}

function parseJwtOptions(options: JwtOptions): JwtConfig {
  checkOptions("jwt", options, ["algorithms", "secret", "jwks", "issuer", "audience", "claim", "token", "jose"]);
  const { algorithms, secret, jwks, issuer, audience, claim = "sub" } = options;
  if ((secret === undefined) === (jwks === undefined)) {
    const message = "jwt requires exactly one of secret and jwks.";
    throw new SluiceError("invalid-option", message, { option: "jwt", expected: "either secret or jwks" });
  }
  const fitting = secret === undefined ? WITH_PUBLIC_KEY : WITH_SECRET;
  const fits = (name: unknown) => typeof name === "string" && fitting.test(name);
  if (!Array.isArray(algorithms) || algorithms.length === 0 || !algorithms.every(fits)) {
    const like = secret === undefined ? "RS256, ES256 or EdDSA for jwks" : "HS256, HS384 or HS512 for secret";
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
    throw optionError("invalid-option", `jwt.${option}`, "a non-empty string", value);
  }
  if (options.token !== undefined && typeof options.token !== "function") {
    throw optionError("invalid-option", "jwt.token", "a function that returns the token", options.token);
  }
  const expected = {
    algorithms,
    requiredClaims: [claim],
    ...(issuer === undefined ? {} : { issuer }),
    ...(audience === undefined ? {} : { audience }),
  };
  return { claim, expected, keyFrom: secret === undefined ? keySet(jwks) : secretKey(secret) };
}

function secretKey(secret: unknown): JwtConfig["keyFrom"] {
  const bytes = typeof secret === "string" ? new TextEncoder().encode(secret) : secret;
  if (bytes instanceof Uint8Array && bytes.length >= 32) return () => bytes;
  // The value stays out of the message: it is a secret, and messages are logged.
  throw optionError("invalid-option", "jwt.secret", "at least 32 bytes (RFC 7518, 3.2)");
}

function keySet(jwks: unknown): JwtConfig["keyFrom"] {
  const address = typeof jwks === "string" ? jwks : (jwks as { href?: unknown } | null)?.href;
  if (typeof address === "string") {
    const url = URL.canParse(address) ? new URL(address) : undefined;
    const local = url?.hostname === "localhost" || url?.hostname === "127.0.0.1" || url?.hostname === "[::1]";
    if (url?.protocol === "https:" || (url?.protocol === "http:" && local))
      return (jose, onRecovered) =>
        cachingKeys(jose.createRemoteJWKSet(url as never, { timeoutDuration: TIMEOUT_MS }) as FindKey, onRecovered);
    throw optionError("invalid-option", "jwt.jwks", "an https URL or a key set { keys }", address);
  }
  if (Array.isArray((jwks as { keys?: unknown } | null)?.keys)) return (jose) => jose.createLocalJWKSet(jwks as never);
  throw optionError("invalid-option", "jwt.jwks", "an https URL or a key set { keys }", jwks);
}

/** Finds the key of a token, in the form that jose expects. */
type FindKey = (header: { alg?: string; kid?: string }, token: unknown) => Promise<unknown>;

/**
 * Caches the keys of a remote set, so tokens are verified while the set can't be fetched. A token with an unknown key id
 * makes jose fetch the set; after a failure, only these fetches pause. Otherwise a client could stop the verification of
 * all tokens during an outage.
 */
function cachingKeys(findKey: FindKey, onRecovered: () => void): FindKey {
  const cached = new Map<string, unknown>();
  let failed = false;
  let pausedUntil = -Infinity;
  let pending = 0;
  return async (header, token) => {
    const id = JSON.stringify([header.alg, header.kid]);
    const known = cached.get(id);
    const paused = monotonicMs() < pausedUntil;
    // One request at a time fetches the set; the others use the cached key.
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
      if (isTokenError(error)) {
        // The set was fetched and no longer has this key.
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
    onRecovered();
  }
}

/** Thrown without a stack: a flood of unknown tokens during an outage would allocate one each. */
const UNKNOWN_KEY = { code: "ERR_JWKS_NO_MATCHING_KEY" };
