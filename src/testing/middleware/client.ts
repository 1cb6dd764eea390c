/** Asks a server over real HTTP, and reads what it answers. */
import { check, checkEqual as same } from "../check.ts";
import type { Seen } from "./guarded-route.ts";

/** An answer, read to its end. */
export interface Answered {
  readonly status: number;
  readonly text: string;
  header(name: string): string | null;
  json(): Record<string, unknown>;
}

/** A client of the server under test. */
export interface Client {
  ask(path: string, init?: RequestInit & { duplex?: "half" }): Promise<Answered>;
  /** The statuses of requests, one after the other. */
  statuses(count: number, path: string, init?: RequestInit): Promise<number[]>;
  /** What happened on a route. */
  seen(name: string): Promise<Seen>;
  /** Waits until what happened on a route is as wanted. */
  until(name: string, what: string, holds: (seen: Seen) => boolean): Promise<Seen>;
  /** The headers that make a request come from an address. */
  as(address: string): Record<string, string>;
}

const TRIES = 200;

export function clientOf(url: () => string, as: Client["as"]): Client {
  const client: Client = {
    as,
    async ask(path, init = {}) {
      const response = await fetch(new URL(path, url()), { redirect: "manual", ...init });
      const text = await response.text();
      return {
        status: response.status,
        text,
        header: (name) => response.headers.get(name),
        json: () => JSON.parse(text) as Record<string, unknown>,
      };
    },
    async statuses(count, path, init) {
      const statuses: number[] = [];
      for (let i = 0; i < count; i++) statuses.push((await client.ask(path, init)).status);
      return statuses;
    },
    async seen(name) {
      const all = (await client.ask("/seen")).json() as Record<string, Seen>;
      const seen = all[name];
      check(seen !== undefined, `the server has no route ${name}`);
      return seen;
    },
    async until(name, what, holds) {
      for (let i = 0; i < TRIES; i++) {
        const seen = await client.seen(name);
        if (holds(seen)) return seen;
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      throw new Error(`${name}: ${what} did not happen: ${JSON.stringify(await client.seen(name))}`);
    },
  };
  return client;
}

/** Fails unless an answer tells nothing of limits. */
export function tellsNothing(answer: Answered, what: string): void {
  for (const name of FIELDS) same(answer.header(name), null, `${what}: ${name}`);
}

const FIELDS = [
  "RateLimit",
  "RateLimit-Policy",
  "RateLimit-Limit",
  "RateLimit-Remaining",
  "RateLimit-Reset",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
];
