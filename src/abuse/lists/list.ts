/** The contract between lists of clients and the step that checks them. */
import type { MaybePromise } from "../../base/maybe-promise.ts";
import type { Address } from "../../http/identity/address.ts";
import type { AbuseReports } from "../reports.ts";

/** The member of a list that `abuse` uses. Registered, because the two builds of the package share it. */
export const LIST: unique symbol = Symbol.for("sluice.list") as never;

/** A list of clients, made by `ipList` or `keyList`. */
export interface List {
  /** What `abuse` calls. */
  readonly [LIST]: ClientList;
}

/** A list as `abuse` uses it. */
interface ClientList {
  /** Its name in events. */
  readonly name: string;
  /** Whether the list contains the client. Without a promise, unless the list is loaded or a key is verified. */
  has(client: ListedClient): MaybePromise<boolean>;
}

/** The client of a request, as lists see it. Every value is computed when it is first used, and once. */
export interface ListedClient {
  /** The IP address as found by `identity`; `undefined` if it is unknown. */
  address(): Address | undefined;
  /** The client's key of one kind, such as `user:42` for `"user"` and `key:acme` for `"key"`; `undefined` without one. */
  key(kind: string): MaybePromise<string | undefined>;
  readonly reports: AbuseReports;
}
