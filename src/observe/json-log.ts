/** Log lines in JSON: sampled, and limited in number. */
import { isoTime } from "../base/clock.ts";
import { optionError } from "../base/errors.ts";
import { checkOptions } from "../base/options.ts";
import type { DecisionEvent, ObserverEvent, TransitionEvent, TransitionType } from "./events.ts";

/** Writes events to a log. */
export interface Logger {
  /** Called with every decision, unless `skipsAllowed`, and every change of state. Its exceptions are ignored. */
  (event: ObserverEvent): void;
  /** Whether allowed decisions are not logged, so that events for them need not be created. Default: false. */
  readonly skipsAllowed?: boolean;
}

/** Options of `jsonLog`. */
export interface JsonLogOptions {
  /** Share of allowed decisions to log, from 0 to 1. Default: 0. */
  allowed?: number;
  /** Share of all other decisions to log, from 0 to 1. Default: 1. */
  denied?: number;
  /** Maximum number of lines per second; `Infinity` for all. The number of dropped lines is logged. Default: 50. */
  maxPerSecond?: number;
}

/** Writes JSON lines. By default, it logs every decision that is not allowed, and at most 50 lines per second. */
export function jsonLog(write: (line: string) => void, options: JsonLogOptions = {}): Logger {
  if (typeof write !== "function")
    throw optionError("invalid-option", "write", "a function, such as console.log", write);
  checkOptions("jsonLog", options, ["allowed", "denied", "maxPerSecond"]);
  const { maxPerSecond = 50 } = options;
  if (!(typeof maxPerSecond === "number" && maxPerSecond >= 1)) {
    throw optionError("invalid-option", "maxPerSecond", "a number >= 1", maxPerSecond);
  }
  const isAllowedLogged = sampler("allowed", options.allowed ?? 0);
  const isDeniedLogged = sampler("denied", options.denied ?? 1);
  let second = Number.NEGATIVE_INFINITY;
  let lines = 0;
  let dropped = 0;

  const log = (event: ObserverEvent): void => {
    if (event.type === "decision" && !(event.outcome === "allowed" ? isAllowedLogged() : isDeniedLogged())) return;
    const now = Math.floor(event.time / 1000);
    if (now !== second) {
      if (dropped > 0) write(line(event.time, "warn", { msg: "log lines dropped", dropped }));
      [second, lines, dropped] = [now, 0, 0];
    }
    if (lines >= maxPerSecond) {
      dropped++;
      return;
    }
    lines++;
    write(event.type === "decision" ? decisionLine(event) : transitionLine(event));
  };
  return Object.assign(log, { skipsAllowed: (options.allowed ?? 0) === 0 });
}

/** Returns a function that is true for a share of its calls, evenly spread. */
function sampler(option: string, share: unknown): () => boolean {
  if (!(typeof share === "number" && share >= 0 && share <= 1)) {
    throw optionError("invalid-option", option, "a share from 0 to 1", share);
  }
  let sum = 0;
  return () => {
    sum += share;
    // Sums of fractions are rounded: ten times 0.1 is less than 1.
    if (sum < 1 - 1e-9) return false;
    sum -= 1;
    return true;
  };
}

function decisionLine(event: DecisionEvent): string {
  const { rule, policy, outcome, per, cost, retryAfterMs, remaining, limit, source, degraded, durationMs } = event;
  const { method, route } = event;
  const level = outcome === "allowed" ? "info" : outcome === "unavailable" ? "error" : "warn";
  return line(event.time, level, {
    msg: outcome,
    rule,
    policy,
    per,
    key: event.tag(),
    cost,
    retry_after_ms: retryAfterMs,
    remaining,
    limit,
    source,
    degraded,
    duration_ms: durationMs === undefined ? undefined : Math.round(durationMs * 1000) / 1000,
    method,
    route,
  });
}

const LEVELS: Partial<Record<TransitionType, string>> = {
  "store-down": "error",
  "store-up": "info",
  "list-refreshed": "info",
  "rules-replaced": "info",
  "rules-rejected": "error",
};

function transitionLine({ type, time, message, policy, store, kind }: TransitionEvent): string {
  return line(time, LEVELS[type] ?? "warn", { msg: type, detail: message, policy, store, kind });
}

/** Members that are `undefined` are left out. */
function line(time: number, level: string, members: object): string {
  return JSON.stringify({ time: isoTime(time), level, ...members });
}
