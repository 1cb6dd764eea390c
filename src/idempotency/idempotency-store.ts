/** The contract of an idempotency store: it keeps which request owns a key, and the response to replay. */

/** An idempotency key and the client that owns it. Equal keys of two scopes are two entries. */
export interface IdempotencyKey {
  /** Identity of the client that sent the key, such as a verified user id. */
  readonly scope: string;
  /** Key that the client sent. */
  readonly key: string;
}

/** A request that is to run under a key. */
export interface IdempotencyClaim extends IdempotencyKey {
  /** Hash of the payload: 1 to 128 letters, digits or characters of `_ . ~ + / = -`. */
  readonly fingerprint: string;
  /** Random id of this request, in the same characters. Two requests must never share one. */
  readonly owner: string;
  /** How long the claim is valid without a renewal, in milliseconds. */
  readonly leaseMs: number;
  /** How long the number of attempts is kept after the last renewal, in milliseconds. At least `leaseMs`. */
  readonly ttlMs: number;
}

/** A response as it is stored. */
export interface StoredResponse {
  /** HTTP status, from 200 to 599. */
  readonly status: number;
  /** Header values by name. A list is sent as several lines. */
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  /** The body; `null` if it was not stored because it is too long or a stream. */
  readonly body: Uint8Array | null;
}

/** The state of a key. The caller runs its request only if it has started. */
export type BeginResult =
  /** The caller owns the key now. `attempt` is 1, or more if earlier owners lost their lease without a response. */
  | { readonly state: "started"; readonly attempt: number }
  /** Another request owns it for `leaseMs` more milliseconds. `same`: whether the fingerprints are equal. */
  | { readonly state: "in-progress"; readonly same: boolean; readonly leaseMs: number }
  /** There is a response, which `read` returns. `same`: whether the fingerprints are equal. */
  | { readonly state: "completed"; readonly same: boolean };

/**
 * Storage for idempotent responses. `idempotencySuite` of `sluice/testing` certifies one. Each method is one atomic step
 * and may be sent again with the same arguments, as clients do after a lost reply. Errors are `SluiceError`s: invalid
 * input changes nothing, and a store that fails rejects with `store-unavailable`.
 */
export interface IdempotencyStore {
  /** Default deadline in ms of middleware on it. Default: 250. */
  readonly deadlineMs?: number | undefined;
  /** Whether its scopes fail independently of each other, as one object per scope does. Default: false. */
  readonly failsPerScope?: boolean | undefined;
  /** Whether it is in this process: an error concerns its own call only, and never opens a circuit. Default: false. */
  readonly isLocal?: boolean | undefined;
  /** Claims a key, or reports its state. Starts again for an owner whose claim it is. */
  begin(claim: IdempotencyClaim): Promise<BeginResult>;
  /** Returns the response to the request with this fingerprint; `undefined` if there is none. Writes nothing. */
  read(key: IdempotencyKey, fingerprint: string): Promise<StoredResponse | undefined>;
  /** Extends a lease to `leaseMs` from now. `false`: the lease is lost and nothing was written. */
  renew(key: IdempotencyKey, owner: string, leaseMs: number): Promise<boolean>;
  /**
   * Stores the response for `ttlMs`. `false`: the lease is lost and nothing was written. An expired lease is lost only
   * when another owner has claimed the key, or the owner has released it.
   */
  complete(key: IdempotencyKey, owner: string, response: StoredResponse, ttlMs: number): Promise<boolean>;
  /** Undoes a claim if `owner` still has it. The attempts of earlier owners stay counted. */
  release(key: IdempotencyKey, owner: string): Promise<void>;
}
