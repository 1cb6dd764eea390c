/** Clients of a Worker over real HTTP, each with an address of its own. */
import { expect } from "vitest";

let clients = 0;

/** An address that no test has used yet. Where Cloudflare's edge is played locally, it is taken from this header. */
export function newAddress(): string {
  clients++;
  return `198.18.${clients >> 8}.${clients & 255}`;
}

/** Asks as a client. */
export function ask(url: string | URL, address: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(url, { headers: { "CF-Connecting-IP": address, ...headers } });
}

/** What came of many requests. */
export interface Burst {
  readonly address: string;
  /** How many were answered with 200, and how many with 429. */
  readonly passed: number;
  readonly denied: number;
  /** One of the denied answers. */
  readonly denial: Response | undefined;
  /** How long it took at most, from before the first request to after the last answer. */
  readonly tookMs: number;
}

/** So many requests of one new client at once. */
export async function burst(url: string | URL, requests: number): Promise<Burst> {
  const address = newAddress();
  const start = performance.now();
  const answers = await Promise.all(Array.from({ length: requests }, () => ask(url, address)));
  const tookMs = performance.now() - start;
  const ended = (status: number) => answers.filter((answer) => answer.status === status);
  const denial = ended(429)[0];
  await Promise.all(answers.filter((answer) => answer !== denial).map((answer) => answer.text()));
  return { address, passed: ended(200).length, denied: ended(429).length, denial, tookMs };
}

/** A bucket that was full let pass what it holds, and no more than what came back meanwhile. */
export function expectBucket({ passed, denied, tookMs }: Burst, requests: number, capacity = 10, refillMs = 200): void {
  const refilled = Math.floor(tookMs / refillMs);
  expect(passed + denied).toBe(requests);
  expect(passed).toBeGreaterThanOrEqual(capacity);
  expect(passed).toBeLessThanOrEqual(capacity + refilled);
}
