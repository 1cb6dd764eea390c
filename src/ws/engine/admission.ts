/**
 * Decides whether a client may connect: upgrades per IP address, and open connections per IP address and per user. Runs
 * before the upgrade, when rejecting a client is cheapest.
 */
import { SluiceError } from "../../base/errors.ts";
import { isPromise, type MaybePromise } from "../../base/maybe-promise.ts";
import { checkOptions, checkWhole } from "../../base/options.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import { areResolved } from "../../http/headers/policies.ts";
import { networkOf } from "../../http/identity/address.ts";
import {
  type AddressResolver,
  addressResolver,
  headerReader,
  type RequestLike,
  TRUST_OPTIONS,
  type TrustOptions,
} from "../../http/identity/client-ip.ts";
import type { Preset } from "../../http/identity/presets.ts";
import { internalError, type ProblemResponse, tooManyConnections, tooManyRequests } from "../../http/rejection.ts";
import { callListener, type ReportError } from "./callbacks.ts";
import { isLimiter, notALimiter } from "./guard-config.ts";
import { userKey } from "./keys.ts";
import { type ConnectionCounter, OpenCounts } from "./open-counts.ts";
import type { LimitExceeded } from "./replies.ts";
import { Reservation } from "./reservation.ts";
import { SharedCounts } from "./shared-counts.ts";

/** Which proxies are trusted to report a client's IP address, and how many bits of an IPv6 address identify a client. */
export interface AddressOptions extends TrustOptions {
  /** Number of leading bits of an IPv6 address that identify one client, from 32 to 64. Default: 56. */
  ipv6Prefix?: number;
}

/** Limits on who may connect. */
export interface AdmissionOptions {
  /** Which proxies or platform are trusted to report a client's IP address. Default: `"peer"`, the address of the socket. */
  identity?: "peer" | Preset | AddressOptions;
  /** Limiter for connection attempts per IP address. Default: no limit. */
  upgrades?: RateLimiter;
  /**
   * Maximum number of open connections per IP address in this process, or a limiter with a concurrency policy, such as
   * `redisRateLimiter(redis, concurrency(20))`, which counts those of all processes. Default: no limit.
   */
  maxOpenPerAddress?: number | RateLimiter;
  /** The same per user. Default: no limit. */
  maxOpenPerUser?: number | RateLimiter;
}

/** The names of all admission options. */
export const ADMISSION_OPTIONS: readonly (keyof AdmissionOptions)[] = [
  "identity",
  "upgrades",
  "maxOpenPerAddress",
  "maxOpenPerUser",
];

/** Timeout for `upgrades` and `data`: a session store that hangs must not hold connection counts. */
const ADMISSION_TIMEOUT_MS = 10_000;

/** Whether a client may connect. */
export type AdmissionResult<Data = unknown> =
  | {
      readonly allowed: true;
      /** The client's IP address, if known; for IPv6, its network. */
      readonly ip: string | undefined;
      /** The data of the connection, such as a verified user. */
      readonly data: Data;
      /** Keys of the open-connection counts that include this connection. */
      readonly counted: readonly string[];
      /** Call this when the connection has closed or was never established. Only the first call has an effect. */
      release(): void;
    }
  | {
      readonly allowed: false;
      /** The HTTP response to send instead of the upgrade. */
      readonly response: ProblemResponse;
    };

/** Callbacks for rejected connections and for errors. */
export interface AdmissionListeners {
  readonly onLimitExceeded?: ((info: LimitExceeded) => unknown) | undefined;
  readonly reportError: ReportError;
}

/** Decides whether clients may connect. */
export class AdmissionControl {
  private readonly upgrades: RateLimiter | undefined;
  private readonly maxOpenPerAddress: number | SharedCounts | undefined;
  private readonly maxOpenPerUser: number | SharedCounts | undefined;
  /** Returns the client's IP address, if known; for IPv6, its network. */
  readonly addressOf: (request: RequestLike) => string | undefined;
  /** Whether the IP address is always that of the socket, without reading headers. */
  readonly usesPeerAddress: boolean;
  private readonly listeners: AdmissionListeners;
  private readonly counter: ConnectionCounter;

  /** `counter`: counts connections that outlive this process's memory, as in a Durable Object that hibernates. */
  constructor(options: AdmissionOptions, listeners: AdmissionListeners, counter?: ConnectionCounter) {
    const { identity = "peer", upgrades, maxOpenPerAddress, maxOpenPerUser } = options;
    if (upgrades !== undefined && !isLimiter(upgrades)) {
      throw notALimiter("upgrades", "a limiter", upgrades);
    }
    this.upgrades = upgrades;
    this.maxOpenPerAddress = checkMaxOpen("maxOpenPerAddress", maxOpenPerAddress);
    this.maxOpenPerUser = checkMaxOpen("maxOpenPerUser", maxOpenPerUser);
    const resolver = addressResolver(identity);
    this.usesPeerAddress = !resolver.readsHeaders;
    this.addressOf = addressReader(identity, resolver);
    this.listeners = listeners;
    this.counter = counter ?? new OpenCounts();
    if (!counter) return;
    for (const [option, max] of Object.entries({ maxOpenPerAddress, maxOpenPerUser })) {
      if (typeof max !== "object") continue;
      const message = `${option} must be a number here: an object that hibernates can't renew the leases of a limiter.`;
      throw new SluiceError("unsupported", message, { option, expected: "a number", received: max });
    }
  }

  /**
   * Decides whether a client may connect. `data` is called only if the IP address may connect, because it may be
   * expensive. `watch` receives the function to call when the client disconnects, which may happen before the decision.
   */
  async admit<Data>(
    request: RequestLike,
    data: () => Data | Promise<Data>,
    watch?: (release: () => void) => void,
  ): Promise<AdmissionResult<Data>> {
    const accept = headerReader(request)("accept");
    const reservation = new Reservation(this.counter);
    const release = () => reservation.release();
    // If the client has disconnected, the response is never read: any will do.
    const reject = (response: ProblemResponse = internalError(accept)) => {
      reservation.cancel();
      return { allowed: false, response } as const;
    };
    watch?.(release);
    if (reservation.isReleased) return reject();
    try {
      const ip = this.identify(request);
      const addressKey = ip === undefined ? undefined : `ip:${ip}`;
      // Reserve before the first await. Otherwise concurrent upgrades would all see the same count.
      const addressFull = this.reserve(reservation, addressKey, "maxOpenPerAddress", accept);
      if (addressFull && !isPromise(addressFull)) return reject(addressFull);
      const addressFullElsewhere = await addressFull;
      if (addressFullElsewhere || reservation.isReleased) return reject(addressFullElsewhere);

      const tooOften = await withTimeout("upgrades", this.chargeUpgrade(addressKey, accept));
      if (tooOften || reservation.isReleased) return reject(tooOften);

      const known = await withTimeout("data", data());
      if (reservation.isReleased) return reject();

      const userFull = await this.reserve(reservation, userKey(known), "maxOpenPerUser", accept);
      if (userFull || reservation.isReleased) return reject(userFull);
      return { allowed: true, ip, data: known, counted: reservation.commit(), release };
    } catch (error) {
      const rejected = reject();
      this.listeners.reportError(error, "SLUICE_REQUEST_FAILED");
      return rejected;
    }
  }

  /** Returns the client's IP address, which must be known if a limit depends on it. */
  private identify(request: RequestLike): string | undefined {
    const ip = this.addressOf(request);
    if (ip !== undefined || (!this.upgrades && this.maxOpenPerAddress === undefined)) return ip;
    throw new SluiceError(
      "unidentified",
      "The upgrade request has no client IP address. Set identity to the platform or the proxies in front of the server.",
      { option: "identity", expected: "the platform or the proxies in front of the server" },
    );
  }

  /** Counts the connection under a key. Returns the response to send if the limit is reached. */
  private reserve(
    reservation: Reservation,
    key: string | undefined,
    option: "maxOpenPerAddress" | "maxOpenPerUser",
    accept: string | undefined,
  ): MaybePromise<ProblemResponse | undefined> {
    const limit = this[option];
    if (key === undefined || limit === undefined) return undefined;
    const rejected = (observed: number | undefined, max: number): ProblemResponse | undefined => {
      if (observed === undefined) return undefined;
      this.reportRejection({ observed, limit: max, key });
      return tooManyConnections(max, accept);
    };
    if (typeof limit === "number") return rejected(reservation.reserve(key, limit), limit);
    return withTimeout(option, reservation.reserveShared(key, limit)).then((observed) =>
      rejected(observed, limit.limit),
    );
  }

  /** Charges one upgrade. Returns the response to send if it is denied. */
  private async chargeUpgrade(
    key: string | undefined,
    accept: string | undefined,
  ): Promise<ProblemResponse | undefined> {
    const { upgrades } = this;
    if (!upgrades || key === undefined) return undefined;
    const decision = await upgrades.consume(key);
    if (!decision || decision.allowed) return undefined;
    const { limit, retryAfterMs } = decision;
    this.reportRejection({ observed: 1, limit, retryAfterMs, key });
    const policies = upgrades.getPolicies?.() ?? upgrades.getPolicy();
    // The policy of a ws-kit limiter lacks fields that the headers need.
    return tooManyRequests(decision, areResolved(policies) ? policies : [], { accept });
  }

  private reportRejection(info: Omit<LimitExceeded, "type" | "id" | "action">): void {
    const { onLimitExceeded, reportError } = this.listeners;
    callListener(onLimitExceeded, reportError, { type: "connections", ...info, id: "", action: "close" });
  }
}

function checkMaxOpen(option: string, max: number | RateLimiter | undefined): number | SharedCounts | undefined {
  if (isLimiter(max)) return new SharedCounts(option, max);
  return max === undefined ? undefined : checkWhole(option, max, 1, 2 ** 31 - 1);
}

/** Awaits a result of the application, and rejects if it takes longer than the admission timeout. */
async function withTimeout<T>(option: string, result: T | Promise<T>): Promise<T> {
  if (!isPromise(result)) return result;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(admissionTimeout(option)), ADMISSION_TIMEOUT_MS);
  });
  try {
    return await Promise.race([result, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

function admissionTimeout(option: string): SluiceError {
  const message = `${option} took longer than ${ADMISSION_TIMEOUT_MS} ms, so the connection was rejected.`;
  return new SluiceError("unidentified", message, { option, expected: `a result within ${ADMISSION_TIMEOUT_MS} ms` });
}

/** Returns a function that reads the client's IP address and shortens IPv6 addresses to the client's network. */
function addressReader(
  identity: "peer" | Preset | AddressOptions,
  resolver: AddressResolver,
): (request: RequestLike) => string | undefined {
  const options: AddressOptions = typeof identity === "object" && identity !== null ? identity : {};
  checkOptions("identity", options, [...TRUST_OPTIONS, "ipv6Prefix"]);
  const prefix = checkWhole("ipv6Prefix", options.ipv6Prefix ?? 56, 32, 64);
  return (request) => {
    const address = resolver.resolve(request.peer, headerReader(request));
    return address && networkOf(address, prefix);
  };
}
