/**
 * The holds of a bucket as text, the same in Redis and in Durable Objects: `|`, when they were written, the sum of all
 * amounts and the last end, separated by `/`, then the debt as `dueAt:amount:` and each hold as `end:amount:id`, ordered by end. It follows
 * the algorithm's own state, and a bucket without holds has no `|`. With the sum in front, the script need not parse the
 * holds for a take. The script writes zeros before the sum. Earlier versions stored neither sum nor last end.
 */
import type { HeldState, StoredHold } from "../core/state.ts";

/** Formats holds and debt. */
export function formatHolds({ writtenAt, holds, debt }: HeldState): string {
  const owed = debt ? ` ${debt.dueAt}:${debt.amount}:` : "";
  return `|${writtenAt}/${summaryOf(holds, debt)}${owed}${holds.map(({ end, amount, id }) => ` ${end}:${amount}:${id}`).join("")}`;
}

function summaryOf(holds: readonly StoredHold[], debt: HeldState["debt"]): string {
  const held = holds.reduce((sum, { amount }) => sum + amount, debt?.amount ?? 0);
  return `${held}/${holds.at(-1)?.end ?? 0}`;
}

/** Parses what follows the `|`. Returns `undefined` for damaged text. */
export function parseHolds(text: string): Omit<HeldState, "base"> | undefined {
  const [head = "", ...items] = text.split(" ");
  const [writtenAt = "", ...summary] = head.split("/");
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
  // The sum may start with zeros.
  if (summary.length > 0 && summary.join("/").replace(/^0+(?=\d)/, "") !== summaryOf(holds, debt)) return undefined;
  return { writtenAt: Number(writtenAt), holds, ...(debt && { debt }) };
}

function isWhole(text: string): boolean {
  return /^\d{1,16}$/.test(text) && Number.isSafeInteger(Number(text));
}
