/** Identifies clients by verified API keys. An API key is a secret, so bucket keys contain only an HMAC of it. */
import { optionError } from "../../base/errors.ts";
import { checkOptions } from "../../base/options.ts";
import { checkHeader, type ReadHeader } from "./client-ip.ts";

/** How API keys are read and verified. */
export interface ApiKeyOptions {
  /**
   * Verifies a key: returns `true`, or a public name of its holder such as an account id. Any other result means that
   * the key is invalid, and the client is identified by its IP address. Errors go to `onError`.
   */
  verify: (key: string) => Verified | PromiseLike<Verified>;
  /** The header that contains the key. Default: `x-api-key`. */
  header?: string;
  /** The secret of the HMAC that replaces API keys. Set it if your API keys can be guessed. Default: a fixed value. */
  hmacSecret?: string;
}

type Verified = boolean | string | null | undefined;

/** Longer API keys are ignored. */
const MAX_CHARS = 1024;

/** Returns a function that derives the client's key from the request's API key; `undefined` without a valid one. */
export function apiKeyHolder(options: ApiKeyOptions): (header: ReadHeader) => Promise<string | undefined> | undefined {
  checkOptions("apiKey", options, ["verify", "header", "hmacSecret"]);
  const { verify, header: name = "x-api-key", hmacSecret = "sluice" } = options;
  if (typeof verify !== "function") {
    throw optionError(
      "invalid-option",
      "apiKey.verify",
      "a function that checks an API key and returns true or the name of its holder",
      verify,
    );
  }
  if (typeof hmacSecret !== "string" || hmacSecret === "") {
    throw optionError("invalid-option", "apiKey.hmacSecret", "a non-empty string");
  }
  const header = checkHeader("apiKey.header", name);
  const holderOf = async (key: string): Promise<string | undefined> => {
    const verified = await verify(key);
    if (typeof verified === "string" && verified !== "") return `key:${verified}`;
    return verified === true ? `key:#${await tagOf(key, hmacSecret)}` : undefined;
  };
  return (read) => {
    const key = read(header);
    return key !== undefined && key !== "" && key.length <= MAX_CHARS ? holderOf(key) : undefined;
  };
}

const encoder = new TextEncoder();

/** 128 bits of HMAC-SHA-256, in hex. */
async function tagOf(key: string, secret: string): Promise<string> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const hmac = await crypto.subtle.importKey("raw", encoder.encode(secret), algorithm, false, ["sign"]);
  const bytes = new Uint8Array(await crypto.subtle.sign("HMAC", hmac, encoder.encode(key)), 0, 16);
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
