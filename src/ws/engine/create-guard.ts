/** Guards connections of any server: who may connect, and what they may send. */
import { optionError } from "../../core/errors.ts";
import { checkOptions } from "../../core/options.ts";
import type { RequestLike as RequestFacts } from "../../http/identity/client-ip.ts";
import { ADMISSION_OPTIONS, type Admission, type AdmissionOptions, Admissions } from "./admission.ts";
import { Connection, type ConnectionState } from "./connection.ts";
import type { Frame } from "./ingress.ts";
import type { Counting } from "./open-counts.ts";
import { checkRules, FRAME_OPTIONS, type FrameOptions, type GuardConfig } from "./options.ts";
import type { Peer } from "./peer.ts";

/** All that a guard can be told. */
export interface GuardOptions<Data = unknown, F = Frame> extends FrameOptions<Data, F>, AdmissionOptions {}

/** What is known of who connects, such as a verified user; or a function that finds it out. */
export type DataOf<Data> = Data | undefined | (() => Data | undefined | Promise<Data | undefined>);

/** Guards the connections of a server. */
export class Guard<Data = unknown, F extends Frame = Frame> {
  /** The options, checked. */
  readonly rules: GuardConfig<Data, F>;
  private readonly admissions: Admissions;

  constructor(rules: GuardConfig<Data, F>, options: AdmissionOptions, counting?: Counting) {
    this.rules = rules;
    this.admissions = new Admissions(options, rules, counting);
  }

  /**
   * Whether a client may connect, before the upgrade. `data` is what is known of it, such as its verified user; a function
   * is asked when the address may connect. `watch` is given what to call when the client leaves, also while it is asked.
   */
  admit(
    facts: RequestFacts,
    data?: DataOf<Data>,
    watch?: (release: () => void) => void,
  ): Promise<Admission<Data | undefined>> {
    const ask = () => (typeof data === "function" ? (data as () => Data | undefined)() : data);
    return this.admissions.admit(facts, ask, watch);
  }

  /** The address of a client whose request is over; unknown if it stood in a header. */
  addressOfPeer(peer: string): string | undefined {
    return this.admissions.byPeer ? this.admissions.addressOf({ peer, headers: {} }) : undefined;
  }

  /** Guards the frames of a connection that came about. */
  attach(peer: Peer<Data, F>, state?: ConnectionState): Connection<Data, F> {
    if (typeof peer?.id !== "string" || typeof peer.send !== "function" || typeof peer.close !== "function") {
      throw optionError("invalid-option", "peer", "an object with id, send and close", peer);
    }
    return new Connection(this.rules, peer, state);
  }
}

/** A guard for a server of your own. The servers that have a function here need not be told how to send and close. */
export function createGuard<Data = unknown>(options: GuardOptions<Data> = {}): Guard<Data> {
  return guardOf("createGuard", options);
}

/** Checks options, and makes a guard of them. */
export function guardOf<Data, F extends Frame>(
  name: string,
  options: GuardOptions<Data, F>,
  more: readonly string[] = [],
  counting?: Counting,
): Guard<Data, F> {
  checkOptions(name, options, [...more, ...FRAME_OPTIONS, ...ADMISSION_OPTIONS]);
  return new Guard(checkRules(options), options, counting);
}
