/** Who holds a verified API key. The key itself is a secret: only a tag of it ever becomes part of a bucket's name. */
import { optionError } from "../../core/errors.ts";
import { checkOptions } from "../../core/options.ts";
import { checkHeader, type ReadHeader } from "./client-ip.ts";

/** How API keys are verified. */
export interface ApiKeyOptions {
  /**
   * Says whether the key is right: `true`, or a name for its holder that is no secret, such as the id of an account.
   * Anything else is a wrong key, and the client is known by its address. What it throws goes to `onError`.
   */
  verify: (key: string) => Verified | PromiseLike<Verified>;
  /** The header that has the key. Default: `x-api-key`. */
  header?: string;
  /** The key of the HMAC that makes tags of API keys. Give one where they can be guessed. Default: a fixed one. */
  hmacSecret?: string;
}

type Verified = boolean | string | null | undefined;

/** No key that was made by somebody is longer. */
const MAX_LENGTH = 1024;

/** Makes the function that tells the client's key from a request's API key, or `undefined`. */
export function apiKeyHolder(options: ApiKeyOptions): (header: ReadHeader) => Promise<string | undefined> | undefined {
  checkOptions("apiKey", options, ["verify", "header", "hmacSecret"]);
  const { verify, header: name = "x-api-key", hmacSecret = "sluice" } = options;
  if (typeof verify !== "function") {
    throw optionError("invalid-option", "apiKey.verify", "a function: a key that nobody checks names nobody", verify);
  }
  if (typeof hmacSecret !== "string" || hmacSecret === "") {
    throw optionError("invalid-option", "apiKey.hmacSecret", "a text that is not empty");
  }
  const header = checkHeader("apiKey.header", name);
  const holderOf = async (key: string): Promise<string | undefined> => {
    const verified = await verify(key);
    if (typeof verified === "string" && verified !== "") return `key:${verified}`;
    return verified === true ? `key:#${await tagOf(key, hmacSecret)}` : undefined;
  };
  return (read) => {
    const key = read(header);
    return key !== undefined && key !== "" && key.length <= MAX_LENGTH ? holderOf(key) : undefined;
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
