/** Runs idempotencySuite on mutants, stores with one known bug each: the case that covers it must fail. */
import type { StoredResponse } from "sluice/idempotency";
import { redisIdempotencyStore } from "sluice/redis";
import { type CreateIdempotencyStore, fakeClock, type IdempotencySubject, idempotencySuite } from "sluice/testing";
import { describe, expect, it } from "vitest";
import { joinIdempotencyScript } from "../../scripts/make-redis-script.js";
import * as steps from "../../src/idempotency/entry.ts";
import { decodeResponse, encodeResponse } from "../../src/idempotency/response-text.ts";
import { failuresOf } from "../collect.ts";
import { onFakeTime } from "../redis/on-fake-time.ts";
import { redis } from "../redis/own-redis.ts";
import { FAKE_CLOCK, variant } from "../redis/script-variants.js";
import { withRedis } from "../servers/needs.ts";
import { type Mutation, toyStore } from "./toy-store.ts";

/** Pretends that the caller owns the entry. */
const owned = (entry: steps.Entry<string> | undefined, owner: string) => entry && { ...entry, owner };
/** Pretends that all fingerprints are equal. */
const withFingerprint = (entry: steps.Entry<string> | undefined, fingerprint: string) =>
  entry && { ...entry, fingerprint };
/** Pretends that a claim has another end of its lease. */
const endingAt = (entry: steps.Entry<string> | undefined, leaseEndsAt: number) =>
  entry?.kind === "claim" ? { ...entry, leaseEndsAt } : entry;

const mutants: { name: string; fails: string; mutation: Mutation }[] = [
  {
    name: "complete does not check the owner",
    fails: "stores a response of the owner only",
    mutation: {
      complete: (entry, owner, response, ttlMs) => steps.complete(owned(entry, owner), owner, response, ttlMs),
    },
  },
  {
    name: "complete does not check the owner after a takeover",
    fails: "rejects a late response after another owner has started",
    mutation: {
      complete: (entry, owner, response, ttlMs) =>
        steps.complete(
          entry?.kind === "claim" && entry.attempt > 1 ? owned(entry, owner) : entry,
          owner,
          response,
          ttlMs,
        ),
    },
  },
  {
    name: "renew does not check the owner",
    fails: "does not renew for another owner",
    mutation: { renew: (entry, owner, leaseMs, now) => steps.renew(owned(entry, owner), owner, leaseMs, now) },
  },
  {
    name: "a late renewal takes the claim back",
    fails: "rejects a late renewal after another owner has started",
    mutation: { renew: (entry, owner, leaseMs, now) => steps.renew(owned(entry, owner), owner, leaseMs, now) },
  },
  {
    name: "release does not check the owner",
    fails: "releases the claim of the owner only",
    mutation: { release: (entry, owner) => steps.release(owned(entry, owner), owner) },
  },
  {
    name: "a late release frees the claim of another owner",
    fails: "ignores a late release after another owner has started",
    mutation: { release: (entry, owner) => steps.release(owned(entry, owner), owner) },
  },
  {
    name: "a release deletes the response",
    fails: "keeps the response when a claim is released after completion",
    mutation: {
      release: (entry, owner) =>
        entry?.owner === owner && entry.kind === "response"
          ? { result: true, write: null }
          : steps.release(entry, owner),
    },
  },
  {
    name: "a release forgets earlier attempts",
    fails: "keeps earlier attempts counted after a release",
    mutation: {
      release: (entry, owner) => {
        const { result, write } = steps.release(entry, owner);
        return { result, ...(write === undefined ? {} : { write: null }) };
      },
    },
  },
  {
    name: "a lease never ends",
    fails: "starts with attempt 2 after an expired lease",
    mutation: { begin: (entry, claim, now) => steps.begin(endingAt(entry, now + 1), claim, now) },
  },
  {
    name: "a lease ends at once",
    fails: "reports a key in progress to another owner",
    mutation: { begin: (entry, claim, now) => steps.begin(endingAt(entry, now), claim, now) },
  },
  {
    name: "a lease ends a millisecond early",
    fails: "starts when the lease ends, and not a millisecond earlier",
    mutation: {
      begin: (entry, claim, now) =>
        steps.begin(entry?.kind === "claim" ? endingAt(entry, entry.leaseEndsAt - 1) : entry, claim, now),
    },
  },
  {
    name: "an expired lease starts with attempt 1",
    fails: "counts every expired lease",
    mutation: {
      begin: (entry, claim, now) =>
        steps.begin(entry?.kind === "claim" && entry.leaseEndsAt <= now ? undefined : entry, claim, now),
    },
  },
  {
    name: "a renewal adds to the old lease",
    fails: "counts a renewed lease from the renewal",
    mutation: {
      renew: (entry, owner, leaseMs, now) =>
        steps.renew(entry, owner, leaseMs + (entry?.kind === "claim" ? Math.max(0, entry.leaseEndsAt - now) : 0), now),
    },
  },
  {
    name: "renew changes nothing",
    fails: "extends a lease by a renewal",
    mutation: {
      renew: (entry, owner, leaseMs, now) => ({ result: steps.renew(entry, owner, leaseMs, now).result }),
    },
  },
  {
    name: "a response after an expired lease is rejected although nobody has started",
    fails: "accepts a response after an expired lease if no other owner has started",
    mutation: {
      complete: (entry, owner, response, ttlMs) =>
        entry?.kind === "claim" && entry.leaseMs < 1000
          ? { result: false }
          : steps.complete(entry, owner, response, ttlMs),
    },
  },
  {
    name: "the clock steps back and the key stays blocked",
    fails: "frees a key one lease after the clock has stepped back",
    mutation: {
      begin: (entry, claim, now) => {
        const step = steps.begin(entry, claim, now);
        return step.result.state === "in-progress" ? { result: step.result } : step;
      },
    },
  },
  {
    name: "the clock steps back and a second owner starts",
    fails: "does not give a lease to two owners when the clock steps back",
    mutation: {
      begin: (entry, claim, now) =>
        steps.begin(
          entry?.kind === "claim" && entry.leaseEndsAt - now > entry.leaseMs ? endingAt(entry, now) : entry,
          claim,
          now,
        ),
    },
  },
  {
    name: "a resent begin conflicts with itself",
    fails: "starts again for the owner of the claim, with the same attempt",
    mutation: {
      begin: (entry, claim, now) =>
        steps.begin(entry?.kind === "claim" ? { ...entry, owner: undefined } : entry, claim, now),
    },
  },
  {
    name: "begin awaits between read and write",
    fails: "starts exactly one of 50 concurrent callers",
    mutation: { isRacy: true },
  },
  {
    name: "begin awaits between read and write after an expired lease",
    fails: "starts exactly one of 50 concurrent callers after an expired lease",
    mutation: { isRacy: true },
  },
  {
    name: "the name does not contain the scope",
    fails: "keeps equal keys of two scopes apart",
    mutation: { nameOf: ({ key }) => key },
  },
  {
    name: "scope and key are joined without a length",
    fails: "keeps pairs apart that are equal when they are joined",
    mutation: { nameOf: ({ scope, key }) => `${scope}${key}` },
  },
  {
    name: "scope and key are joined by a colon",
    fails: "keeps pairs apart that are equal when they are joined",
    mutation: { nameOf: ({ scope, key }) => `${scope}:${key}` },
  },
  {
    name: "keys are cut at 255 characters",
    fails: "keeps huge keys and scopes apart",
    mutation: { nameOf: ({ scope, key }) => JSON.stringify([scope, key.slice(0, 255)]) },
  },
  {
    name: "keys are encoded as UTF-8",
    fails: "differ in case, spaces, Unicode form or lone surrogates",
    mutation: {
      nameOf: ({ scope, key }) => [scope, key].map((text) => new TextEncoder().encode(text).join()).join("/"),
    },
  },
  {
    name: "keys are normalised",
    fails: "differ in case, spaces, Unicode form or lone surrogates",
    mutation: { nameOf: ({ scope, key }) => JSON.stringify([scope, key.normalize("NFC")]) },
  },
  {
    name: "fingerprints are ignored in progress",
    fails: "reports whether the fingerprints are equal while in progress",
    mutation: {
      begin: (entry, claim, now) =>
        steps.begin(entry?.kind === "claim" ? withFingerprint(entry, claim.fingerprint) : entry, claim, now),
    },
  },
  {
    name: "fingerprints are ignored after completion",
    fails: "reports whether the fingerprints are equal after completion",
    mutation: { begin: (entry, claim, now) => steps.begin(withFingerprint(entry, claim.fingerprint), claim, now) },
  },
  {
    name: "a conflict replaces the fingerprint",
    fails: "keeps the fingerprint of the owner after a conflict",
    mutation: {
      begin: (entry, claim, now) => {
        const step = steps.begin(entry, claim, now);
        if (step.result.state !== "in-progress" || entry?.kind !== "claim") return step;
        return { ...step, write: { entry: { ...entry, fingerprint: claim.fingerprint }, ttlMs: entry.ttlMs } };
      },
    },
  },
  {
    name: "a response has no TTL",
    fails: "deletes a response after its TTL",
    mutation: { ttlMs: (ttlMs, { kind }) => (kind === "response" ? 1e12 : ttlMs) },
  },
  {
    name: "a claim has no TTL",
    fails: "deletes an abandoned claim after its TTL",
    mutation: { ttlMs: (ttlMs, { kind }) => (kind === "claim" ? 1e12 : ttlMs) },
  },
  {
    name: "a response has the TTL of its claim",
    fails: "keeps a response for longer than the lease and the TTL of its claim",
    mutation: {
      complete: (entry, owner, response, ttlMs) =>
        steps.complete(entry, owner, response, entry?.kind === "claim" ? entry.ttlMs : ttlMs),
    },
  },
  {
    name: "a claim expires with its lease",
    fails: "starts with attempt 2 after an expired lease",
    mutation: { ttlMs: (ttlMs, entry) => (entry.kind === "claim" ? entry.leaseMs : ttlMs) },
  },
  {
    name: "a renewal does not extend the TTL",
    fails: "keeps a renewed claim for longer than its TTL",
    mutation: {
      renew: (entry, owner, leaseMs, now) => {
        const step = steps.renew(entry, owner, leaseMs, now);
        return step.write && entry?.kind === "claim" ? { ...step, write: { ...step.write, ttlMs: entry.ttlMs } } : step;
      },
    },
  },
  {
    name: "a second response replaces the first",
    fails: "keeps the first response when a key is completed twice",
    mutation: {
      complete: (entry, owner, response, ttlMs) =>
        entry?.kind === "response" && entry.owner === owner
          ? { result: true, write: { entry: { ...entry, response }, ttlMs } }
          : steps.complete(entry, owner, response, ttlMs),
    },
  },
  {
    name: "a response is read with any fingerprint",
    fails: "reads a response with the fingerprint of its request only",
    mutation: { read: (entry, fingerprint) => steps.read(withFingerprint(entry, fingerprint), fingerprint) },
  },
  {
    name: "bodies are decoded as text",
    fails: "replays every value of a byte",
    mutation: {
      encode: (response) =>
        encodeResponse({
          ...response,
          body: response.body && new TextEncoder().encode(new TextDecoder().decode(response.body)),
        }),
    },
  },
  {
    name: "a body that was not stored becomes an empty one",
    fails: "replays an empty body, which is not an absent one",
    mutation: { encode: (response) => encodeResponse({ ...response, body: response.body ?? new Uint8Array(0) }) },
  },
  {
    name: "lists of header values are joined",
    fails: "replays header values",
    mutation: {
      decode: (text): StoredResponse => {
        const response = decodeResponse(text);
        const headers = Object.entries(response.headers).map(([name, value]) => [name, [value].flat().join(", ")]);
        return { ...response, headers: Object.fromEntries(headers) };
      },
    },
  },
  {
    name: "input is not checked",
    fails: "rejects invalid owners, fingerprints, durations and responses, and creates nothing",
    mutation: { isUnchecked: true },
  },
];

/** The failures of the cases whose titles contain a text. */
function failuresIn(create: CreateIdempotencyStore, text: string): Promise<string[]> {
  return failuresOf(({ describe, it }) => {
    const selected = (title: string, body: () => Promise<void>) => void (title.includes(text) && it(title, body));
    idempotencySuite("mutant", create, { describe, it: selected, time: "fake" });
  });
}

function toySubject(mutation: Mutation): IdempotencySubject {
  const clock = fakeClock();
  return { store: toyStore(clock, mutation), advance: clock.advance };
}

describe("idempotencySuite", () => {
  it("passes on the correct toy store", async () => expect(await failuresIn(() => toySubject({}), "")).toEqual([]));

  it.each(mutants)("catches a store in which $name", async ({ mutation, fails }) => {
    expect(await failuresIn(() => toySubject(mutation), fails)).not.toEqual([]);
  });
});

/** Mutants of the script: the text that is replaced, and the case that must fail. */
const scriptMutants: { name: string; fails: string; from: string; to: string }[] = [
  {
    name: "complete does not check the owner",
    fails: "rejects a late response after another owner has started",
    from: "if not isOwner then return 'i1 lost' end\nlocal written",
    to: "local written",
  },
  {
    name: "renew does not check the owner",
    fails: "does not renew for another owner",
    from: "if not isOwner then return 'i1 lost' end\nclaim.leaseEndsAt",
    to: "if not claim then return 'i1 lost' end\nclaim.leaseEndsAt",
  },
  {
    name: "release does not check the owner",
    fails: "ignores a late release after another owner has started",
    from: "if not isOwner then return 'i1 lost' end\nif claim.attempt",
    to: "if not claim then return 'i1 lost' end\nif claim.attempt",
  },
  {
    name: "a lease never ends",
    fails: "starts with attempt 2 after an expired lease",
    from: "or left <= 0 then",
    to: "then left = 1",
  },
  {
    name: "fingerprints are ignored",
    fails: "reports whether the fingerprints are equal after completion",
    from: "responseFingerprint == fingerprint and '1' or '0'",
    to: "'1'",
  },
  {
    name: "values have no TTL",
    fails: "deletes a response after its TTL",
    from: ", 'PX', format(WHOLE, ttlMs)",
    to: "",
  },
  {
    name: "the clock steps back and the key stays blocked",
    fails: "frees a key one lease after the clock has stepped back",
    from: "if left <= claim.leaseMs then return reply end",
    to: "if true then return reply end",
  },
];

describe("idempotencySuite on Redis", withRedis, () => {
  it.each(scriptMutants)("catches a script in which $name", async ({ from, to, fails }) => {
    const script = joinIdempotencyScript({ clock: FAKE_CLOCK });
    expect(script.split(from), "the replaced text occurs once").toHaveLength(2);
    const mutant = variant(script.replace(from, () => to));
    const create = () => {
      const clock = fakeClock();
      const store = redisIdempotencyStore(onFakeTime(redis, clock, mutant));
      const advance = async (ms: number) => {
        clock.advance(ms);
        await new Promise((resolve) => setTimeout(resolve, ms + 3));
      };
      return { store, advance };
    };
    const failures = await failuresIn(create, fails);
    await redis.flushdb();
    expect(failures).toHaveLength(1);
  });
});
