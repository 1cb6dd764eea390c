/** Sends requests to a server over real HTTP, and reads the responses. */
import { check, checkEqual } from "../check.ts";
import type { RouteLog } from "./guarded-route.ts";

/** A response, read to its end. */
export interface TestResponse {
  readonly status: number;
  readonly text: string;
  readonly bytes: Uint8Array;
  /** The values of `Set-Cookie`. */
  readonly cookies: readonly string[];
  header(name: string): string | null;
  json(): Record<string, unknown>;
}

/** A request as it is written to a socket. */
interface RawRequest {
  readonly path: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Text in ASCII. With a header `Content-Length`, it may be the beginning of a longer body. */
  readonly body?: string;
}

/** A client of the server under test. */
export interface Client {
  send(path: string, init?: RequestInit & { duplex?: "half" }): Promise<TestResponse>;
  /** Sends a request whose response is read by the case. */
  open(path: string, init?: RequestInit): Promise<Response>;
  /** Sends requests on a new connection without waiting for responses. Returns a function that disconnects. */
  write(...requests: RawRequest[]): Promise<() => void>;
  /** The statuses of requests that are sent one after the other. */
  statuses(count: number, path: string, init?: RequestInit): Promise<number[]>;
  /** The log of a route. */
  seen(name: string): Promise<RouteLog>;
  /** Waits until the log of a route meets a condition. */
  until(name: string, what: string, isMet: (log: RouteLog) => boolean): Promise<RouteLog>;
  /** The headers that make a request come from an IP address. */
  as(address: string): Record<string, string>;
}

const TRIES = 200;

export function clientOf(url: () => string, as: Client["as"]): Client {
  const client: Client = {
    as,
    open: (path, init = {}) => fetch(new URL(path, url()), { redirect: "manual", ...init }),
    async send(path, init) {
      const response = await client.open(path, init);
      const bytes = new Uint8Array(await response.arrayBuffer());
      const text = new TextDecoder().decode(bytes);
      return {
        status: response.status,
        text,
        bytes,
        cookies: response.headers.getSetCookie(),
        header: (name) => response.headers.get(name),
        json: () => JSON.parse(text) as Record<string, unknown>,
      };
    },
    async write(...requests) {
      // Not with fetch, which does not pipeline, and uses connections again.
      const { connect } = await import("node:net");
      const { hostname, port, host } = new URL(url());
      const socket = connect(Number(port), hostname.replace(/^\[|\]$/g, ""));
      socket.on("error", () => {});
      socket.resume();
      for (const { method = "GET", path, headers = {}, body = "" } of requests) {
        const fields = { Host: host, ...(body ? { "Content-Length": `${body.length}` } : {}), ...headers };
        const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
        socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n${body}`);
      }
      return () => void socket.destroy();
    },
    async statuses(count, path, init) {
      const statuses: number[] = [];
      for (let i = 0; i < count; i++) statuses.push((await client.send(path, init)).status);
      return statuses;
    },
    async seen(name) {
      const logs = (await client.send("/seen")).json() as Record<string, RouteLog>;
      const log = logs[name];
      check(log !== undefined, `the server has no route ${name}`);
      return log;
    },
    async until(name, what, isMet) {
      for (let i = 0; i < TRIES; i++) {
        const log = await client.seen(name);
        if (isMet(log)) return log;
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      throw new Error(`${name}: ${what} did not happen: ${JSON.stringify(await client.seen(name))}`);
    },
  };
  return client;
}

/** Fails if a response has a RateLimit field. */
export function expectNoFields(response: TestResponse, what: string): void {
  for (const name of FIELDS) checkEqual(response.header(name), null, `${what}: ${name}`);
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
