/** HTTP clients of a Worker, each with its own IP address. */
import { expect } from "vitest";

let clients = 0;

/** Returns an unused IP address. */
export function newAddress(): string {
  clients++;
  return `198.18.${clients >> 8}.${clients & 255}`;
}

/** Sends a request from an address. The local runtime reads it from this header, as Cloudflare's edge would set it. */
export function request(url: string | URL, address: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(url, { headers: { "CF-Connecting-IP": address, ...headers } });
}

/** The result of many requests. */
export interface Burst {
  readonly address: string;
  /** Number of responses with 200 and with 429. */
  readonly passed: number;
  readonly denied: number;
  /** One of the responses with 429. */
  readonly denial: Response | undefined;
  /** Time from before the first request until after the last response. */
  readonly tookMs: number;
}

/** Sends requests of one new client at once. */
export async function burst(url: string | URL, requests: number): Promise<Burst> {
  const address = newAddress();
  const start = performance.now();
  const responses = await Promise.all(Array.from({ length: requests }, () => request(url, address)));
  const tookMs = performance.now() - start;
  const withStatus = (status: number) => responses.filter((response) => response.status === status);
  const denial = withStatus(429)[0];
  await Promise.all(responses.filter((response) => response !== denial).map((response) => response.text()));
  return { address, passed: withStatus(200).length, denied: withStatus(429).length, denial, tookMs };
}

/** Checks that a full bucket admitted its capacity, and at most what refilled meanwhile. */
export function expectBucket({ passed, denied, tookMs }: Burst, requests: number, capacity = 10, refillMs = 200): void {
  const refilled = Math.floor(tookMs / refillMs);
  expect(passed + denied).toBe(requests);
  expect(passed).toBeGreaterThanOrEqual(capacity);
  expect(passed).toBeLessThanOrEqual(capacity + refilled);
}
