/** One case of the middleware suite. */
import type { Policy } from "../../core/policy.ts";
import type { Client } from "./client.ts";
import type { Planner, RoutePlan } from "./guarded-route.ts";

/** One behaviour, tested over HTTP. */
export interface MiddlewareCase {
  readonly title: string;
  /** The routes that it needs, by name. */
  readonly routes: Readonly<Record<string, (planner: Planner) => RoutePlan>>;
  drive(client: Client): Promise<void>;
}

/** A bucket that does not refill while the suite runs. */
export function slow(capacity: number, name: string): Policy {
  return { capacity, tokensPerSecond: `${capacity}/d`, name };
}

/** An array of `count` times the same value. */
export function times<T>(count: number, value: T): T[] {
  return new Array<T>(count).fill(value);
}

/** A stream of text. */
export function streamOf(...texts: string[]): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    start(controller) {
      for (const text of texts) controller.enqueue(new TextEncoder().encode(text));
      controller.close();
    },
  });
}

/** The path of a request on any server. */
export function pathOf([first]: readonly unknown[]): string {
  const { url, req, raw } = first as { url?: string; req?: { path?: string }; raw?: { url?: string } };
  return new URL(req?.path ?? raw?.url ?? url ?? "/", "http://localhost").pathname;
}
