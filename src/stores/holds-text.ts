/**
 * The holds of a bucket as text, the same in Redis and in Durable Objects: `|`, when they were written, then the debt as
 * `dueAt:amount:` and each hold as `end:amount:id`, ordered by end. It follows the algorithm's own state, and a bucket
 * without holds has no `|`.
 */
import type { HeldState, StoredHold } from "../algorithms/held-state.ts";

/** Formats holds and debt. */
export function formatHolds({ writtenAt, holds, debt }: HeldState): string {
  const owed = debt ? ` ${debt.dueAt}:${debt.amount}:` : "";
  return `|${writtenAt}${owed}${holds.map(({ end, amount, id }) => ` ${end}:${amount}:${id}`).join("")}`;
}

/** Parses what follows the `|`. Returns `undefined` for damaged text. */
export function parseHolds(text: string): Omit<HeldState, "base"> | undefined {
  const [writtenAt = "", ...items] = text.split(" ");
  if (!isWhole(writtenAt) || items.length === 0) return undefined;
  const holds: StoredHold[] = [];
  let debt: HeldState["debt"];
  for (const [i, item] of items.entries()) {
    const [, end, amount, id] = /^(\d+):(\d+):([\w.~-]{0,64})$/.exec(item) ?? [];
    if (end === undefined || amount === undefined || id === undefined) return undefined;
    if (!isWhole(end) || !isWhole(amount)) return undefined;
    if (id !== "") holds.push({ id, amount: Number(amount), end: Number(end) });
    else if (i === 0) debt = { amount: Number(amount), dueAt: Number(end) };
    else return undefined;
    if (holds.length > 1 && (holds.at(-2) as StoredHold).end > Number(end)) return undefined;
  }
  return { writtenAt: Number(writtenAt), holds, ...(debt && { debt }) };
}

function isWhole(text: string): boolean {
  return /^\d{1,16}$/.test(text) && Number.isSafeInteger(Number(text));
}
