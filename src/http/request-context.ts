/** A request as limits see it: what it is, who sent it and what is known about it. */
import type { MaybePromise } from "../base/maybe-promise.ts";

/** What is known about a request. A value is computed when it is first used, and once. */
export interface RequestContext {
  readonly method: string;
  /** The request target as it was received. */
  readonly path: string;
  /** The key of the IP address, such as `ip:203.0.113.7`; `undefined` if it is unknown. */
  ip(): string | undefined;
  /** The key of the verified user; `undefined` without one. */
  user(): MaybePromise<string | undefined>;
  /** The key of the holder of a verified API key; `undefined` without one. */
  apiKey(): MaybePromise<string | undefined>;
  /** Whether the IP address is known: not the one that all unidentified clients share. */
  hasOwnAddress?(): boolean;
  /** Whether a fact is unknown because it reads the body, which is not parsed yet. For warnings. */
  readsMissingBody?(name: string): boolean;
  /** Whether the IP address may be that of a proxy, whose clients share it. */
  mayBeProxy?(): boolean;
  /** The value of a fact. */
  fact(name: string): MaybePromise<unknown>;
}
