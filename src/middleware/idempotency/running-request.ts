/** A request that runs under a key: renews its lease, and stores its response before the end of it is sent. */
import { SluiceError } from "../../base/errors.ts";
import type { LimiterEvent } from "../../core/events.ts";
import { isStoreFailure } from "../../core/store.ts";
import type { IdempotencyKey, StoredResponse } from "../../idempotency/idempotency-store.ts";
import type { HandlerArgs } from "../gate/request-reader.ts";
import type { CapturedResponse, ResponseCapture } from "../gate/response-capture.ts";
import { captureResponse } from "../hosts/capture.ts";
import type { IdempotencyConfig } from "./options.ts";
import type { StoreCalls } from "./store-calls.ts";
import { isStorable, type MissingBody, storedResponse } from "./stored-response.ts";

/** Renewals per lease: two may fail. */
const RENEWALS_PER_LEASE = 3;

/** Reports an event of a request. */
export type Report = (event: Extract<LimiterEvent, { type: "response-not-stored" | "lease-lost" }>) => void;

/** What a running request needs. */
export interface Run<Args extends HandlerArgs> {
  readonly config: IdempotencyConfig<Args>;
  readonly calls: StoreCalls;
  readonly id: IdempotencyKey;
  readonly owner: string;
  /** Whether its handler never ran, because a middleware before it failed or the client disconnected. */
  readonly isUnhandled: () => boolean;
  /** Reports what could not be stored. */
  readonly report: Report;
  /** Reports an error of `shouldStore`. */
  readonly callbackFailed: (error: unknown) => void;
}

/** Starts to renew the lease. Returns the capture of the response. */
export function runOnce<Args extends HandlerArgs>(run: Run<Args>): ResponseCapture {
  const request = new RunningRequest(run);
  return captureResponse({
    maxBytes: run.config.maxBodyBytes,
    complete: (captured) => request.complete(captured),
  });
}

class RunningRequest<Args extends HandlerArgs> {
  private readonly run: Run<Args>;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private hasEnded = false;
  private isLost = false;

  constructor(run: Run<Args>) {
    this.run = run;
    this.repeat(() => this.renew());
  }

  /** Stores the response, or releases the claim if it is not to be replayed. Resolves within the deadline. */
  async complete(captured: CapturedResponse): Promise<void> {
    this.hasEnded = true;
    clearTimeout(this.timer);
    this.timer = undefined;
    const { calls, id, owner, config } = this.run;
    if (!this.isKept(captured)) {
      await calls.release(id, owner);
      return;
    }
    const { response, missing } = storedResponse(withStatus(captured), config.storedHeaders);
    if (missing !== undefined) this.notStored(response, missing);
    try {
      await this.store(response);
    } catch (error) {
      // The store refuses the response, such as one with very long headers. A retry must not run all the same.
      this.notStored(response, "refused", error as SluiceError);
      await this.store({ status: response.status, headers: {}, body: null });
    }
  }

  private async store(response: StoredResponse): Promise<void> {
    const stored = await this.completeOnce(response);
    if (!isStoreFailure(stored)) return;
    this.notStored(response, "store", stored.error);
    // In the background: until the lease ends, nothing else can claim the key.
    let left = RENEWALS_PER_LEASE;
    this.repeat(async () => isStoreFailure(await this.completeOnce(response)) && --left > 0);
  }

  private async completeOnce(response: StoredResponse): ReturnType<StoreCalls["complete"]> {
    const { calls, id, owner, config } = this.run;
    const stored = await calls.complete(id, owner, response, config.ttl);
    if (stored === false) this.lost();
    return stored;
  }

  /** Whether a retry must not run the handler again. */
  private isKept({ status, missing, error }: CapturedResponse): boolean {
    if (this.run.isUnhandled() || (status === undefined && missing === "aborted")) return false;
    const sent = status ?? statusOf(error);
    try {
      return isStorable(sent) && Boolean(this.run.config.shouldStore(sent));
    } catch (error) {
      this.run.callbackFailed(error);
      return true;
    }
  }

  /** Returns whether to go on. */
  private async renew(): Promise<boolean> {
    const { calls, id, owner, config } = this.run;
    // If the store fails, the next renewal may succeed in time.
    const isHeld = await calls.renew(id, owner, config.lease).catch(() => true);
    // A renewal that arrives after the response finds no claim.
    if (!isHeld && !this.hasEnded) this.lost();
    return isHeld;
  }

  /** Calls a function three times per lease while it resolves with true, without keeping the process alive. */
  private repeat(call: () => Promise<boolean>): void {
    const timer = setTimeout(async () => {
      const goesOn = await call().catch(() => false);
      if (goesOn && this.timer === timer) this.repeat(call);
    }, this.run.config.lease / RENEWALS_PER_LEASE);
    (timer as { unref?(): void }).unref?.();
    this.timer = timer;
  }

  private lost(): void {
    if (this.isLost) return;
    this.isLost = true;
    const { id, report } = this.run;
    report({ type: "lease-lost", policy: "", scope: id.scope, key: id.key });
  }

  private notStored({ status }: StoredResponse, reason: NotStored, error?: SluiceError): void {
    const { id, report } = this.run;
    const { scope, key } = id;
    report({ type: "response-not-stored", policy: "", scope, key, status, reason, ...(error ? { error } : {}) });
  }
}

type NotStored = MissingBody | "refused" | "store";

/** The captured response with the status that the server sends for an error of the handler. */
function withStatus(captured: CapturedResponse): CapturedResponse {
  return captured.status === undefined ? { ...captured, status: statusOf(captured.error) } : captured;
}

/** The status of an error, as frameworks read it. */
function statusOf(error: unknown): number {
  const { status, statusCode = status } = (error ?? {}) as { status?: unknown; statusCode?: unknown };
  const isStatus = !(error instanceof SluiceError) && typeof statusCode === "number" && statusCode >= 300;
  return isStatus && isStorable(statusCode) ? statusCode : 500;
}
