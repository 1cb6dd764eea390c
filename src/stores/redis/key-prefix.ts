/** The text before every key of a Redis store, by which ACL users and SCAN select its keys. */
import { optionError } from "../../base/errors.ts";

/** An option of all stores in Redis. */
export interface KeyPrefixOptions {
  /**
   * Text before every stored key, such as `"my-app:"`: 1 to 64 printable ASCII characters without spaces and braces, which
   * would decide the cluster slot. Another prefix is another set of keys. Default: none.
   */
  keyPrefix?: string;
}

const KEY_PREFIX = /^(?:(?![{}])[!-~]){1,64}$/;

/** Returns the prefix, or throws. */
export function checkKeyPrefix({ keyPrefix }: KeyPrefixOptions): string {
  if (keyPrefix === undefined) return "";
  if (typeof keyPrefix === "string" && KEY_PREFIX.test(keyPrefix)) return keyPrefix;
  const expected = 'text of 1 to 64 printable ASCII characters without spaces and braces, such as "my-app:"';
  throw optionError("invalid-option", "keyPrefix", expected, keyPrefix);
}
