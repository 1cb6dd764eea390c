/** What the cases of `idempotencySuite` share: a store, scopes that no other case uses, and checks. */
import type { MaybePromise } from "../../base/maybe-promise.ts";
import type {
  BeginResult,
  IdempotencyClaim,
  IdempotencyKey,
  IdempotencyStore,
  StoredResponse,
} from "../../idempotency/idempotency-store.ts";
import { check, checkEqual } from "../check.ts";

/** One named case. */
export interface IdempotencyCase {
  readonly title: string;
  run(bench: IdempotencyBench): Promise<void>;
}

/** A lease that ends while a case waits for it. No case needs it to last. */
export const SHORT_MS = 20;
/** A lease or TTL that does not end during a case. */
export const LONG_MS = 600_000;

/** The store under test. */
export class IdempotencyBench {
  readonly store: IdempotencyStore;
  /** Lets this many milliseconds pass by the store's clock. */
  readonly advance: (ms: number) => MaybePromise<void>;
  readonly scope: string = `scope ${Math.random()}`;

  constructor(store: IdempotencyStore, advance: (ms: number) => MaybePromise<void>) {
    this.store = store;
    this.advance = advance;
  }

  id(key = "key"): IdempotencyKey {
    return { scope: this.scope, key };
  }

  /** Begins a key with a long lease, unless `claim` has another. */
  begin(owner: string, claim: Partial<IdempotencyClaim> = {}): Promise<BeginResult> {
    return this.store.begin({ ...this.id(), fingerprint: "f1", leaseMs: LONG_MS, ttlMs: LONG_MS, owner, ...claim });
  }

  async checkStarted(owner: string, attempt: number, claim?: Partial<IdempotencyClaim>): Promise<void> {
    checkEqual(await this.begin(owner, claim), { state: "started", attempt }, `begin of ${owner}`);
  }

  /** Checks that a key is in progress. Returns the rest of its lease. */
  async checkInProgress(same = true, claim?: Partial<IdempotencyClaim>): Promise<number> {
    const result = await this.begin("another", claim);
    const { state, same: isSame, leaseMs } = result as Extract<BeginResult, { state: "in-progress" }>;
    checkEqual({ state, same: isSame }, { state: "in-progress", same }, "a second caller");
    check(Number.isInteger(leaseMs) && leaseMs > 0, `leaseMs must be a whole number > 0, but is ${leaseMs}`);
    return leaseMs;
  }

  /** Checks that a key has a response. */
  async checkCompleted(response: StoredResponse, claim?: Partial<IdempotencyClaim>, same = true): Promise<void> {
    const result = await this.begin("another", claim);
    checkEqual(result.state, "completed", "the state after a response");
    const completed = result as Extract<BeginResult, { state: "completed" }>;
    checkEqual(completed.same, same, "whether the fingerprints are equal");
    // Another fingerprint reads nothing, so the response is read with that of its own request.
    const { fingerprint = "f1", ...id } = claim ?? {};
    const stored = await this.read(same ? fingerprint : "f1", id);
    check(stored !== undefined, "a response that was found must be read");
    checkEqual(plain(stored as StoredResponse), plain(response), "the stored response");
  }

  /** Reads a response. */
  read(fingerprint = "f1", id: Partial<IdempotencyKey> = {}): Promise<StoredResponse | undefined> {
    return this.store.read({ ...this.id(), ...id }, fingerprint);
  }

  complete(
    owner: string,
    response: StoredResponse = textResponse(owner),
    id: IdempotencyKey = this.id(),
    ttlMs: number = LONG_MS,
  ): Promise<boolean> {
    return this.store.complete(id, owner, response, ttlMs);
  }

  /** Begins with a short lease and lets it end. */
  async abandon(owner: string, attempt = 1): Promise<void> {
    await this.checkStarted(owner, attempt, { leaseMs: SHORT_MS });
    await this.advance(SHORT_MS);
  }
}

/** A response with a text as its body. */
export function textResponse(text: string): StoredResponse {
  return { status: 201, headers: { "content-type": "text/plain" }, body: new TextEncoder().encode(text) };
}

/** A response in a form that can be compared. */
function plain({ status, headers, body }: StoredResponse): object {
  check(body === null || body instanceof Uint8Array, "the body must be a Uint8Array or null");
  return { status, headers: { ...headers }, body: body && Array.from(body).join() };
}
