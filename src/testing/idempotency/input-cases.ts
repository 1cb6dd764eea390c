/** Cases about invalid input: it is rejected with the code of its error, and changes nothing. */
import type { IdempotencyStore, StoredResponse } from "../../idempotency/idempotency-store.ts";
import { checkEqual, checkRejects } from "../check.ts";
import { type IdempotencyBench, type IdempotencyCase, LONG_MS, textResponse } from "./bench.ts";

const INVALID_KEYS: readonly unknown[] = ["", undefined, null, 7, ["a"], {}];
const INVALID_IDS: readonly unknown[] = ["", undefined, null, 7, "a b", "a\nb", "*", "é", "a".repeat(129)];
const INVALID_DURATIONS: readonly unknown[] = [
  0,
  -1,
  1.5,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  "1s",
  undefined,
  2 ** 52,
];
const VALID = textResponse("x");
const INVALID_RESPONSES: readonly unknown[] = [
  undefined,
  null,
  { ...VALID, status: 99 },
  { ...VALID, status: 600 },
  { ...VALID, status: "200" },
  { ...VALID, status: 200.5 },
  { ...VALID, headers: undefined },
  { ...VALID, headers: ["a"] },
  { ...VALID, headers: { "": "a" } },
  { ...VALID, headers: { "a b": "a" } },
  { ...VALID, headers: { a: "line\nbreak" } },
  { ...VALID, headers: { a: "line\rbreak" } },
  { ...VALID, headers: { a: ["a", "nul\0"] } },
  { ...VALID, headers: { a: 7 } },
  { ...VALID, headers: { a: "x".repeat(70_000) } },
  { ...VALID, body: "text" },
  { ...VALID, body: undefined },
  { ...VALID, body: [1, 2] },
  { ...VALID, body: new ArrayBuffer(1) },
  { ...VALID, body: new Uint8Array(2 ** 20 + 1) },
];

/** Checks that a call rejects with a caller error of one of these codes. */
async function checkInvalid(call: () => Promise<unknown>, codes: readonly string[], subject: string): Promise<void> {
  const code = await call().then(
    () => "no error",
    (error: { code?: string }) => error.code ?? String(error),
  );
  if (!codes.includes(code)) throw new Error(`${subject}: expected ${codes.join(" or ")}, but received ${code}`);
}

const OPTION = ["invalid-option", "out-of-range"];

async function checkAllInvalid(bench: IdempotencyBench): Promise<void> {
  const { store } = bench;
  const id = bench.id();
  for (const owner of INVALID_IDS as string[]) {
    await checkInvalid(() => bench.begin(owner), OPTION, "the owner of begin");
    await checkInvalid(() => store.read(id, owner), OPTION, "the fingerprint of read");
    await checkInvalid(() => store.renew(id, owner, LONG_MS), OPTION, "the owner of renew");
    await checkInvalid(() => store.complete(id, owner, VALID, LONG_MS), OPTION, "the owner of complete");
    await checkInvalid(() => store.release(id, owner), OPTION, "the owner of release");
    await checkInvalid(() => bench.begin("a", { fingerprint: owner }), OPTION, "the fingerprint of begin");
  }
  for (const ms of INVALID_DURATIONS as number[]) {
    await checkInvalid(() => bench.begin("a", { leaseMs: ms }), OPTION, "leaseMs of begin");
    await checkInvalid(() => bench.begin("a", { ttlMs: ms }), OPTION, "ttlMs of begin");
    await checkInvalid(() => store.renew(id, "a", ms), OPTION, "leaseMs of renew");
    await checkInvalid(() => store.complete(id, "a", VALID, ms), OPTION, "ttlMs of complete");
  }
  for (const response of INVALID_RESPONSES as StoredResponse[]) {
    await checkInvalid(() => store.complete(id, "a", response, LONG_MS), OPTION, "the response");
  }
}

/** Calls every method with an id that may be invalid. */
function callsWith(store: IdempotencyStore, id: { scope: string; key: string }): (() => Promise<unknown>)[] {
  return [
    () => store.begin({ ...id, fingerprint: "f1", owner: "a", leaseMs: LONG_MS, ttlMs: LONG_MS }),
    () => store.renew(id, "a", LONG_MS),
    () => store.complete(id, "a", VALID, LONG_MS),
    () => store.release(id, "a"),
  ];
}

export const inputCases: readonly IdempotencyCase[] = [
  {
    title: "rejects scopes and keys that are empty or not strings",
    async run(bench) {
      for (const id of [undefined, null, "key"] as never[]) {
        for (const call of callsWith(bench.store, id)) await checkRejects(call, "invalid-key", String(id));
      }
      for (const invalid of INVALID_KEYS as string[]) {
        for (const id of [bench.id(invalid), { scope: invalid, key: "key" }]) {
          if (id.key === "key" && id.scope === bench.scope) continue;
          for (const call of callsWith(bench.store, id)) await checkRejects(call, "invalid-key", String(invalid));
        }
      }
    },
  },
  {
    title: "rejects a TTL that is shorter than the lease",
    async run(bench) {
      await checkRejects(() => bench.begin("a", { leaseMs: 1001, ttlMs: 1000 }), "invalid-option", "begin");
      await bench.checkStarted("a", 1, { leaseMs: 60_000, ttlMs: 60_000 });
    },
  },
  {
    title: "rejects invalid owners, fingerprints, durations and responses, and creates nothing",
    async run(bench) {
      await checkAllInvalid(bench);
      await bench.checkStarted("b", 1);
    },
  },
  {
    title: "changes neither a claim nor a response on invalid input",
    async run(bench) {
      await bench.checkStarted("a", 1);
      await checkAllInvalid(bench);
      await bench.checkInProgress();
      checkEqual(await bench.complete("a"), true, "complete after invalid input");
      await checkAllInvalid(bench);
      await bench.checkCompleted(textResponse("a"));
    },
  },
];
