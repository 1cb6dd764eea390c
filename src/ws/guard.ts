/** Guards connections of any server: who may connect, and what they may send. */
import { isPromise } from "../core/maybe-promise.ts";
import { checkOptions } from "../core/options.ts";
import type { RequestFacts } from "../http/client-ip.ts";
import { ADMISSION_OPTIONS, type Admission, type AdmissionOptions, Admissions } from "./admission.ts";
import { Connection, type ConnectionState, type Peer } from "./connection.ts";
import type { Counting } from "./open-counts.ts";
import { checkRules, GUARD_OPTIONS, type GuardOptions, type Rules } from "./options.ts";

/** All that a guard can be told. */
export interface Options<Data = unknown> extends GuardOptions<Data>, AdmissionOptions {}

/** Guards the connections of a server. */
export class Guard<Data = unknown> {
  private readonly rules: Rules<Data>;
  private readonly admissions: Admissions;

  constructor(rules: Rules<Data>, options: AdmissionOptions, counting?: Counting) {
    this.rules = rules;
    const { onLimitExceeded, onError } = rules;
    const listeners = {
      exceeded: quietly(onLimitExceeded, quietly(onError)),
      failed: quietly(onError),
    };
    this.admissions = new Admissions(options, listeners, counting);
  }

  /** Whether a client may connect, before the upgrade. `data` is what is known of it, such as its verified user. */
  admit(facts: RequestFacts, data?: Data): Promise<Admission> {
    return this.admissions.admit(facts, data);
  }

  /** The client's address, if it is known; of IPv6 the network that one client has. */
  addressOf(facts: RequestFacts): string | undefined {
    return this.admissions.addressOf(facts);
  }

  /** Guards the frames of a connection that came about. */
  attach(peer: Peer<Data>, state?: ConnectionState): Connection<Data> {
    return new Connection(this.rules, peer, state);
  }
}

/** A guard for a server of your own. The servers that have a function here need not be told how to send and close. */
export function createGuard<Data = unknown>(options: Options<Data> = {}): Guard<Data> {
  checkOptions("createGuard", options, [...GUARD_OPTIONS, ...ADMISSION_OPTIONS]);
  return new Guard(checkRules(options), options);
}

/** A listener that nobody waits for, and whose faults go elsewhere. */
export function quietly<A extends unknown[]>(
  listener: ((...args: A) => unknown) | undefined,
  failed: (error: unknown) => void = () => {},
): (...args: A) => void {
  return (...args) => {
    try {
      const told = listener?.(...args);
      if (isPromise(told)) told.then(undefined, failed);
    } catch (error) {
      failed(error);
    }
  };
}
