/** The guard for any server: decides who may connect, and checks the frames of each connection. */
import { optionError } from "../../base/errors.ts";
import { checkOptions } from "../../base/options.ts";
import type { RequestLike } from "../../http/identity/client-ip.ts";
import { ADMISSION_OPTIONS, AdmissionControl, type AdmissionOptions, type AdmissionResult } from "./admission.ts";
import { Connection, type ConnectionState } from "./connection.ts";
import { type GuardConfig, parseGuardOptions } from "./guard-config.ts";
import { bytesOf, type Frame } from "./ingress.ts";
import type { ConnectionCounter } from "./open-counts.ts";
import { FRAME_OPTIONS, type FrameOptions } from "./options.ts";
import type { Peer } from "./peer.ts";
import { errorEnvelope } from "./replies.ts";

/** All options of a guard. */
export interface GuardOptions<Data = unknown, F = Frame> extends FrameOptions<Data, F>, AdmissionOptions {}

/** The data of a connection, such as a verified user, or a function that returns it. */
export type DataOf<Data> = Data | undefined | (() => Data | undefined | Promise<Data | undefined>);

/** Guards the connections of a server. */
export class Guard<Data = unknown, F extends Frame = Frame> {
  /** The parsed options. */
  readonly config: GuardConfig<Data, F>;
  private readonly admission: AdmissionControl;

  constructor(config: GuardConfig<Data, F>, options: AdmissionOptions, counter?: ConnectionCounter) {
    this.config = config;
    this.admission = new AdmissionControl(options, config, counter);
  }

  /**
   * Decides whether a client may connect, before the upgrade. `data` is the data of the connection, such as a verified
   * user; a function is called only if the IP address may connect. `watch` receives the function to call when the client
   * disconnects, which may happen before the decision.
   */
  admit(
    request: RequestLike,
    data?: DataOf<Data>,
    watch?: (release: () => void) => void,
  ): Promise<AdmissionResult<Data | undefined>> {
    const resolveData = () => (typeof data === "function" ? (data as () => Data | undefined)() : data);
    return this.admission.admit(request, resolveData, watch);
  }

  /** Returns the IP address of a socket after its upgrade. Unknown if `identity` reads it from a header. */
  addressOfPeer(peer: string): string | undefined {
    return this.admission.usesPeerAddress ? this.admission.addressOf({ peer, headers: {} }) : undefined;
  }

  /** Guards the frames of a connection. Pass received frames to `receive` of the returned connection. */
  attach(peer: Peer<Data, F>, state?: ConnectionState): Connection<Data, F> {
    if (typeof peer?.id !== "string" || typeof peer.send !== "function" || typeof peer.close !== "function") {
      throw optionError("invalid-option", "peer", "an object with id, send and close", peer);
    }
    return new Connection(this.config, peer, state);
  }
}

/** Creates a guard for a WebSocket server without an adapter. Attach each connection as a `Peer`, and pass on its frames. */
export function createGuard<Data = unknown>(options: GuardOptions<Data> = {}): Guard<Data> {
  return buildGuard("createGuard", options);
}

/** Checks options and builds a guard. `extraOptions` are the names of the options that only this server has. */
export function buildGuard<Data, F extends Frame>(
  name: string,
  options: GuardOptions<Data, F>,
  extraOptions: readonly string[] = [],
  counter?: ConnectionCounter,
): Guard<Data, F> {
  checkOptions(name, options, [...extraOptions, ...FRAME_OPTIONS, ...ADMISSION_OPTIONS]);
  return new Guard(parseGuardOptions<Data, F, string | Uint8Array>(options, bytesOf, errorEnvelope), options, counter);
}
