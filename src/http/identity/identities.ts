/** What limits are counted per: built-in identities and facts, alone or joined, and the keys of each. */

/** What a limit is counted per: a built-in identity, the name of a fact, or several joined by `+`, such as `"ip+account"`. */
export type Per = "ip" | "network" | "user" | "apiKey" | "client" | "global" | (string & {});

/** Facts that may be given as functions: others provide them too. */
export type OptionalFact = "user" | "apiKey" | "bot";

/** The identities that every request, its `identity` or its clearance provides. Others are facts. */
export const BUILT_IN_IDENTITIES: readonly string[] = [
  "ip",
  "network",
  "client",
  "global",
  "user",
  "apiKey",
  "clearance",
];
/** The identities that every request has. */
const OF_ALL_CALLERS: readonly string[] = ["ip", "network", "client", "global"];
/** The name of a fact. */
export const FACT: RegExp = /^[A-Za-z][A-Za-z0-9_]{0,39}$/;

/** How the keys of identities start, where they are not called like their identity. */
const KINDS: ReadonlyMap<string, readonly string[]> = new Map([
  ["network", ["net"]],
  ["apiKey", ["key"]],
  ["client", ["user", "key", "ip"]],
]);

/** Whether all callers have it. A joined identity needs all of its parts. */
export function isOfAllCallers(identities: readonly string[]): boolean {
  return identities.every((identity) => OF_ALL_CALLERS.includes(identity));
}

/** The parts that some callers do not have. */
export function missingParts(identities: readonly string[]): readonly string[] {
  return identities.filter((identity) => !OF_ALL_CALLERS.includes(identity));
}

/** Whether it is a fact that the rules need. A user and an API key may also be verified by `identity`. */
export function isFact(identity: string): boolean {
  return !BUILT_IN_IDENTITIES.includes(identity);
}

/** Whether it may be a fact: a user and an API key may be given as one. A clearance is verified. */
export function canBeFact(name: string): boolean {
  return FACT.test(name) && !OF_ALL_CALLERS.includes(name) && name !== "clearance";
}

/** Parses `ip+account`. Returns its parts, or what is wrong with it. */
export function parsePer(per: string): readonly string[] | string {
  const parts = per.split("+");
  if (!parts.every((part) => FACT.test(part))) {
    return 'is not an identity; use ip, network, user, apiKey, client, global, the name of a fact, or several joined by "+"';
  }
  if (new Set(parts).size < parts.length) return "names one identity twice";
  return parts.length > 1 && parts.includes("global") ? `joins "global", which is one key for all; remove it` : parts;
}

/** Returns how a key of these identities must be written, or `undefined` if it is written so. */
export function checkKey(key: string, identities: readonly string[]): string | undefined {
  const [only] = identities;
  if (only === "global") return key === "global" ? undefined : 'the key must be "global"';
  // Only the parts of joined keys are escaped, so the key of one identity may contain "+".
  const parts = identities.length > 1 ? key.split("+") : [key];
  const isValid =
    parts.length === identities.length &&
    parts.every((part, i) =>
      kindsOf(identities[i] as string).some((kind) => part.startsWith(`${kind}:`) && part.length > kind.length + 1),
    );
  if (isValid) return undefined;
  const forms = identities.map((identity) => kindsOf(identity).map((kind) => `"${kind}:..."`));
  if (forms.length === 1) return `the key must be like ${(forms[0] as string[]).join(" or ")}`;
  return `the key must be like "${identities.map((identity) => `${kindsOf(identity)[0]}:...`).join("+")}"`;
}

/** How the keys of an identity may start. */
export function kindsOf(identity: string): readonly string[] {
  return KINDS.get(identity) ?? [identity];
}
