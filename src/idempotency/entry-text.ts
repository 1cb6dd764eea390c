/** The text of a stored entry. idempotency.lua reads and writes the same. */
import type { Entry } from "./entry.ts";

/** Not a valid owner. */
const NO_OWNER = "*";

const CLAIM = /^i1 claim (\d+) (\d+) (\d+) (\d+) (\S+) (\S+)$/;
const RESPONSE = /^i1 response (\S+) (\S+)\n/;

/** Formats an entry whose response is text. */
export function formatEntry(entry: Entry<string>): string {
  if (entry.kind === "response") return `i1 response ${entry.owner} ${entry.fingerprint}\n${entry.response}`;
  const { attempt, leaseEndsAt, leaseMs, ttlMs, owner = NO_OWNER, fingerprint } = entry;
  return `i1 claim ${attempt} ${leaseEndsAt} ${leaseMs} ${ttlMs} ${owner} ${fingerprint}`;
}

/** Parses an entry. Returns `undefined` if the text is not one of this version. */
export function parseEntry(text: string): Entry<string> | undefined {
  const response = RESPONSE.exec(text);
  if (response) {
    const [head, owner, fingerprint] = response as unknown as [string, string, string];
    return { kind: "response", owner, fingerprint, response: text.slice(head.length) };
  }
  const claim = CLAIM.exec(text);
  if (!claim) return undefined;
  const [attempt, leaseEndsAt, leaseMs, ttlMs] = claim.slice(1, 5).map(Number) as [number, number, number, number];
  const [owner, fingerprint] = claim.slice(5) as [string, string];
  const fields = { attempt, leaseEndsAt, leaseMs, ttlMs, fingerprint };
  return { kind: "claim", ...fields, owner: owner === NO_OWNER ? undefined : owner };
}
