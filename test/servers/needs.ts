/**
 * Test options that skip what a missing program makes impossible: `describe("a store", withRedis, () => {})`. Vitest reports
 * these tests as skipped, and test/progress-reporter.ts lists them at the end.
 */
import { describe, inject } from "vitest";
import { hasCompiler } from "./clock-shim.js";

/** A program that some tests need. */
export type Need = "redis-server" | "workerd" | "a C compiler";

/** The reasons why programs can't be used. */
export type Missing = Partial<Record<Need, string>>;

declare module "vitest" {
  interface ProvidedContext {
    missing: Missing;
  }
  interface TaskMeta {
    /** The program that is missing, and why, if the test is skipped for that. */
    missing?: { need: Need; reason: string };
  }
}

function optionsFor(need: Need, reason: string | undefined) {
  return reason === undefined ? {} : { skip: true, meta: { missing: { need, reason } } };
}

// Undefined in integration/, which has no global set-up: a missing program fails its tests.
const missing: Missing | undefined = inject("missing");

/** Whether redis-server can be started. */
export const hasRedis: boolean = missing?.["redis-server"] === undefined;

/** Options of a suite or test that starts redis-server. */
export const withRedis = optionsFor("redis-server", missing?.["redis-server"]);

/** Options of a suite or test that starts workerd. */
export const withWorkerd = optionsFor("workerd", missing?.workerd);

/** Options of a suite or test that shifts the clock of a redis-server. */
export function withShiftedRedis() {
  if (!hasRedis || hasCompiler()) return withRedis;
  return optionsFor("a C compiler", "The clock shim can't be built. Install gcc on Linux.");
}

/** A `describe` for the published suites, which take it from their caller. */
export const describeWithRedis = (name: string, body: () => void): void => void describe(name, withRedis, body);
