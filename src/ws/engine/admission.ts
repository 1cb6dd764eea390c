/**
 * Who may connect: how often from one address, and how many connections of one address or user are open. It is decided
 * before the upgrade, so that whoever is refused costs next to nothing.
 */
import { copyKey } from "../../core/copy-key.ts";
import { optionError } from "../../core/errors.ts";
import { isPromise } from "../../core/maybe-promise.ts";
import { checkOptions, checkWhole } from "../../core/options.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import { areResolved } from "../../http/headers/policies.ts";
import { networkOf } from "../../http/identity/address.ts";
import {
  type AddressResolver,
  addressResolver,
  headerReader,
  type RequestLike as RequestFacts,
  TRUST_OPTIONS,
  type TrustOptions,
} from "../../http/identity/client-ip.ts";
import type { Preset } from "../../http/identity/presets.ts";
import {
  type ResponseData as Answer,
  internalError,
  tooManyConnections,
  tooManyRequests,
} from "../../http/rejection.ts";
import { type ReportError, tell } from "./callbacks.ts";
import { userKey } from "./keys.ts";
import { type Counting, OpenCounts } from "./open-counts.ts";
import { isLimiter } from "./options.ts";
import type { LimitExceeded } from "./replies.ts";

/** Whom to believe about a client's address, and how much of it is one client. */
export interface AddressOptions extends TrustOptions {
  /** How many bits of an IPv6 address are one client, from 32 to 64: what one subscriber is given. Default: 56. */
  ipv6Prefix?: number;
}

/** Who may connect. */
export interface AdmissionOptions {
  /** Whom to believe about a client's address. Default: nobody but the other end of the socket. */
  identity?: "peer" | Preset | AddressOptions;
  /** How often one address may connect. Default: as often as it likes. */
  upgrades?: RateLimiter;
  /** The most connections that one address has open at once, in this process. Default: any number. */
  maxOpenPerAddress?: number;
  /** The most connections that one user has open at once, in this process. Default: any number. */
  maxOpenPerUser?: number;
}

/** The names of all options of admission. */
export const ADMISSION_OPTIONS: readonly (keyof AdmissionOptions)[] = [
  "identity",
  "upgrades",
  "maxOpenPerAddress",
  "maxOpenPerUser",
];

/** So long is waited for what others say of a client: a session store that hangs is not to keep places for ever. */
const MAX_MS = 10_000;

/** Whether a client may connect. */
export type Admission<Data = unknown> =
  | {
      readonly allowed: true;
      /** The client's address, if it is known; of IPv6 the network that one client has. */
      readonly ip: string | undefined;
      /** What is known of it. */
      readonly data: Data;
      /** The counts that it is part of, by their keys. */
      readonly counted: readonly string[];
      /** The connection is closed, or did not come about. Only the first call counts. */
      release(): void;
    }
  | { readonly allowed: false /** What to answer instead of the upgrade. */; readonly answer: Answer };

/** Hears of what was refused, and of faults. */
export interface AdmissionListeners {
  readonly onLimitExceeded?: ((info: LimitExceeded) => unknown) | undefined;
  readonly reportError: ReportError;
}

/** Decides who may connect. */
export class Admissions {
  private readonly upgrades: RateLimiter | undefined;
  private readonly perAddress: number | undefined;
  private readonly perUser: number | undefined;
  /** The client's address, if it is known; of IPv6 the network that one client has. */
  readonly addressOf: (facts: RequestFacts) => string | undefined;
  /** Whether the address is that of the socket, whatever the headers say. */
  readonly byPeer: boolean;
  private readonly listeners: AdmissionListeners;
  private readonly counting: Counting;

  constructor(options: AdmissionOptions, listeners: AdmissionListeners, counting: Counting = new OpenCounts()) {
    const { identity = "peer", upgrades, maxOpenPerAddress, maxOpenPerUser } = options;
    if (upgrades !== undefined && !isLimiter(upgrades)) {
      throw optionError("invalid-limiter", "upgrades", "a limiter", upgrades);
    }
    this.upgrades = upgrades;
    this.perAddress = checkMost("maxOpenPerAddress", maxOpenPerAddress);
    this.perUser = checkMost("maxOpenPerUser", maxOpenPerUser);
    const resolver = addressResolver(identity);
    this.byPeer = !resolver.readsHeaders;
    this.addressOf = addressReader(identity, resolver);
    this.listeners = listeners;
    this.counting = counting;
  }

  /**
   * Whether a client may connect. What is known of it, such as its verified user, is asked for when the address may: it
   * may be dear to find out. `watch` is given what to call when the client leaves, which may be before it is let in.
   */
  async admit<Data>(
    facts: RequestFacts,
    data: () => Data | Promise<Data>,
    watch?: (release: () => void) => void,
  ): Promise<Admission<Data>> {
    const accept = headerReader(facts)("accept");
    const held: { key: string; release(): void }[] = [];
    let [isGone, isDecided] = [false, false];
    const giveBack = () => {
      for (const { release } of held) release();
    };
    // Whoever leaves has its place until it is decided: the work for it goes on, and has a bound all the same.
    const release = () => {
      isGone = true;
      if (isDecided) giveBack();
    };
    watch?.(release);
    // Nobody is there any more to read it.
    const unread = { allowed: false, answer: internalError(accept) } as const;
    if (isGone) return unread;
    /** Takes a place in a count, or tells what to answer if there is none. */
    const enter = (name: string | undefined, limit: number | undefined): Answer | undefined => {
      if (name === undefined || limit === undefined) return undefined;
      // It is kept for as long as the connection is open.
      const key = copyKey(name);
      const { release, observed } = this.counting.enter({ key, limit });
      if (release) {
        held.push({ key, release });
        return undefined;
      }
      this.refused({ observed, limit, key });
      return tooManyConnections(limit, accept);
    };
    try {
      const ip = this.addressOf(facts);
      if (ip === undefined && (this.upgrades || this.perAddress !== undefined)) refuseUnidentified();
      // It is counted before anybody is asked, so that many at once are not let in by one look.
      let answer = enter(`ip:${ip}`, this.perAddress);
      answer ??= await inTime("upgrades", this.tooOften(`ip:${ip}`, accept));
      const known = answer || isGone ? undefined : await inTime("data", data());
      if (!isGone) answer ??= enter(userKey(known), this.perUser);
      isDecided = true;
      if (!answer && !isGone) {
        return { allowed: true, ip, data: known as Data, counted: held.map(({ key }) => key), release };
      }
      giveBack();
      return answer ? { allowed: false, answer } : unread;
    } catch (error) {
      giveBack();
      this.listeners.reportError(error, "SLUICE_REQUEST_FAILED");
      return { allowed: false, answer: internalError(accept) };
    }
  }

  /** What to answer to an address that connects too often. */
  private async tooOften(key: string, accept: string | undefined): Promise<Answer | undefined> {
    const { upgrades } = this;
    const decision = await upgrades?.consume(key);
    if (!upgrades || !decision || decision.allowed) return undefined;
    const { limit, retryAfterMs } = decision;
    this.refused({ observed: 1, limit, retryAfterMs, key });
    const policies = upgrades.getPolicies?.() ?? upgrades.getPolicy();
    // Limiters of ws-kit tell less of their policy than headers need.
    return tooManyRequests(decision, areResolved(policies) ? policies : [], { accept });
  }

  private refused(about: Omit<LimitExceeded, "type" | "id" | "action">): void {
    const { onLimitExceeded, reportError } = this.listeners;
    tell(onLimitExceeded, reportError, { type: "connections", ...about, id: "", action: "close" });
  }
}

function checkMost(option: string, most: number | undefined): number | undefined {
  return most === undefined ? undefined : checkWhole(option, most, 1, 2 ** 31 - 1);
}

/** What is told of a client, unless that takes too long. */
async function inTime<T>(option: string, told: T | Promise<T>): Promise<T> {
  if (!isPromise(told)) return told;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = optionError("unidentified", option, `an answer about a client within ${MAX_MS} ms`);
    timer = setTimeout(() => reject(error), MAX_MS);
  });
  try {
    return await Promise.race([told, late]);
  } finally {
    clearTimeout(timer);
  }
}

function refuseUnidentified(): never {
  const expected = "an address of the client, but the request has none: name the platform or the proxies in front";
  throw optionError("unidentified", "identity", expected);
}

/** Finds the client's address, in one spelling for all that mean one client. */
function addressReader(
  identity: "peer" | Preset | AddressOptions,
  resolver: AddressResolver,
): (facts: RequestFacts) => string | undefined {
  const options: AddressOptions = typeof identity === "object" && identity !== null ? identity : {};
  checkOptions("identity", options, [...TRUST_OPTIONS, "ipv6Prefix"]);
  const prefix = checkWhole("ipv6Prefix", options.ipv6Prefix ?? 56, 32, 64);
  return (facts) => {
    const address = resolver.resolve(facts.peer, headerReader(facts));
    return address && networkOf(address, prefix);
  };
}
