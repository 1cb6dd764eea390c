/** Clients and reports for tests of lists. */
import type { SluiceError } from "sluice";
import type { List } from "sluice/abuse";
import { LIST, type ListedClient } from "../../src/abuse/lists/list.ts";
import type { MaybePromise } from "../../src/base/maybe-promise.ts";
import { parseAddress } from "../../src/http/identity/address.ts";

/** A problem of a list that was reported. */
interface StaleReport {
  readonly list: string;
  readonly error: SluiceError;
}

/** Collects reports, and looks up clients in lists. */
export function lookups() {
  const reports: StaleReport[] = [];
  const asked: string[] = [];
  const clientOf = (
    ip: string | undefined,
    keys: Readonly<Record<string, MaybePromise<string | undefined>>>,
  ): ListedClient => ({
    address: () => parseAddress(ip),
    key(kind) {
      asked.push(kind);
      return keys[kind];
    },
    reports: {
      listRefreshed() {},
      listStale: (list, error) => reports.push({ list, error }),
      providerDown: () => {
        throw new Error("not used by lists");
      },
    },
  });
  return {
    /** Every problem that a list reported. */
    reports,
    /** Every kind of key that a list asked for. */
    asked,
    /** Whether a list contains an address. */
    hasIp: (list: List, ip: string | undefined) => list[LIST].has(clientOf(ip, {})),
    /** Whether a list contains a client with these keys, by kind. */
    hasKeys: (list: List, keys: Readonly<Record<string, MaybePromise<string | undefined>>>) =>
      list[LIST].has(clientOf("192.0.2.1", keys)),
  };
}

/** A function that loads a list. Each call is settled by the test. */
export function controlledLoader<Source>() {
  const calls: { resolve(source: Source): void; reject(error: unknown): void }[] = [];
  const load = (): Promise<Source> => new Promise((resolve, reject) => calls.push({ resolve, reject }));
  return { load, calls };
}
