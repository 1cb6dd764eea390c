/** The value of a KV key: JSON with one count per isolate, `{ isolates: { id: [version, ...state] }, until, resetAt? }`. */

import type { Algorithm } from "../../../core/compiled-policy.ts";
import { isState } from "../../../core/compiled-policy.ts";

/** The grants of one isolate. */
export interface IsolateCount {
  /** Increases with every change of the state. */
  readonly version: number;
  /** `undefined` if nothing is counted. */
  readonly state: readonly number[] | undefined;
}

/** A parsed value. */
export interface KVValue {
  /** The counts by isolate id. */
  readonly counts: ReadonlyMap<string, IsolateCount>;
  /** Time of the last reset, in milliseconds since the epoch; 0 if there was none. */
  readonly resetAt: number;
  /** When KV deletes the value, in milliseconds since the epoch. */
  readonly keptUntil: number;
}

/** Parses a value. Parts that are damaged or belong to another algorithm are left out. */
export function parseValue(text: string | null, algorithm: Algorithm): KVValue {
  const counts = new Map<string, IsolateCount>();
  const { isolates = {}, resetAt, until } = parseObject(text);
  for (const [id, count] of Object.entries(isolates ?? {})) {
    const [version, ...state] = Array.isArray(count) ? (count as unknown[]) : [];
    if (!isWhole(version) || !state.every(isWhole)) continue;
    if (state.length === 0 || isState(state, algorithm)) {
      counts.set(id, { version, state: state.length > 0 ? state : undefined });
    }
  }
  return { counts, resetAt: isWhole(resetAt) ? resetAt : 0, keptUntil: isWhole(until) ? until : 0 };
}

/** Formats a value. */
export function formatValue({
  counts,
  resetAt,
  keptUntil,
}: {
  counts: Iterable<[string, IsolateCount]>;
  resetAt: number;
  keptUntil: number;
}): string {
  const isolates: Record<string, readonly number[]> = {};
  for (const [id, { version, state = [] }] of counts) isolates[id] = [version, ...state];
  return JSON.stringify(resetAt > 0 ? { isolates, until: keptUntil, resetAt } : { isolates, until: keptUntil });
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function parseObject(text: string | null): { isolates?: object; resetAt?: unknown; until?: unknown } {
  try {
    const parsed: unknown = JSON.parse(text ?? "null");
    return typeof parsed === "object" && parsed !== null ? parsed : {};
  } catch {
    return {};
  }
}
