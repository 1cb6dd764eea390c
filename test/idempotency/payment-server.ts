/** A server of payments with `idempotent` of `sluice/fetch`, for tests with a fake clock. */
import type { LimiterEvent } from "sluice";
import { type FetchIdempotencyOptions, getIdempotency, idempotent } from "sluice/fetch";
import { type IdempotencyStore, memoryIdempotencyStore } from "sluice/idempotency";
import { vi } from "vitest";

const { setImmediate: realSetImmediate } = globalThis;

/** The scope of a payment. */
export const scope = (request: Request): string | undefined => request.headers.get("x-user") ?? undefined;

/** A request to pay. */
export interface Payment {
  key?: string | null;
  user?: string | null;
  body?: string;
  method?: string;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** Creates a request. */
export function payment({
  key = "k1",
  user = "ada",
  body = "100",
  method = "POST",
  signal,
  headers = {},
}: Payment = {}): Request {
  const all = new Headers({ "Content-Type": "text/plain", ...headers });
  if (key !== null) all.set("Idempotency-Key", key);
  if (user !== null) all.set("X-User", user);
  return new Request("http://localhost/pay?x=1", {
    method,
    headers: all,
    ...(method === "GET" ? {} : { body }),
    ...(signal && { signal }),
  });
}

/** A server with a handler that counts, and finishes when it is told to. */
export function serverOf(options: Partial<FetchIdempotencyOptions> = {}) {
  const store = memoryIdempotencyStore({ clock: { now: () => Date.now() } });
  const events: LimiterEvent[] = [];
  const runs: { attempt: number | undefined; finish(response?: Response): void; fail(error: unknown): void }[] = [];
  const handler = idempotent({ store, scope, onEvent: (event) => void events.push(event), ...options })(
    (request: Request) => {
      return new Promise<Response>((resolve, reject) => {
        const number = runs.length + 1;
        runs.push({
          attempt: getIdempotency(request)?.attempt,
          finish: (response = new Response(`run ${number}`, { status: 201 })) => resolve(response),
          fail: reject,
        });
      });
    },
  );
  const send = (given: Payment = {}) => handler(payment(given));
  /** Sends a request whose handler finishes at once. */
  const run = async (given: Payment = {}, response?: Response) => {
    const before = runs.length;
    let isSent = false;
    const sent = send(given).finally(() => (isSent = true));
    // Long payloads are hashed by another thread, in real time.
    while (!isSent && runs.length === before) {
      await vi.advanceTimersByTimeAsync(0);
      await new Promise((resolve) => realSetImmediate(resolve));
    }
    if (runs.length > before) runs.at(-1)?.finish(response);
    await vi.advanceTimersByTimeAsync(5);
    return sent;
  };
  return { store, events, runs, send, run };
}

/** The code of a problem. */
export const codeOf = async (response: Response): Promise<unknown> =>
  ((await response.json()) as { code: unknown }).code;

/** A store whose methods can be replaced. */
export function storeWith(changes: (inner: IdempotencyStore) => Partial<IdempotencyStore>): IdempotencyStore {
  const inner = memoryIdempotencyStore({ clock: { now: () => Date.now() } });
  return {
    begin: (claim) => inner.begin(claim),
    read: (...args) => inner.read(...args),
    renew: (...args) => inner.renew(...args),
    complete: (...args) => inner.complete(...args),
    release: (...args) => inner.release(...args),
    ...changes(inner),
  };
}
