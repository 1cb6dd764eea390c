/** What one case of the suite is made of. */
import type { Policy } from "../../core/policy.ts";
import type { Client } from "./client.ts";
import type { Planner, RoutePlan } from "./guarded-route.ts";

/** One thing that is tried. */
export interface MiddlewareCase {
  readonly title: string;
  /** The routes it needs, by name. */
  readonly routes: Readonly<Record<string, (planner: Planner) => RoutePlan>>;
  drive(client: Client): Promise<void>;
}

/** A bucket that does not fill while a suite runs. */
export function slow(capacity: number, name: string): Policy {
  return { capacity, tokensPerSecond: `${capacity}/d`, name };
}

/** The same value, so many times. */
export function times<T>(count: number, value: T): T[] {
  return new Array<T>(count).fill(value);
}
