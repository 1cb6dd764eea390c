/** Cases about keys: no two pairs of scope and key share an entry, whatever clients send. */
import type { IdempotencyKey } from "../../idempotency/idempotency-store.ts";
import { checkEqual } from "../check.ts";
import { type IdempotencyBench, type IdempotencyCase, textResponse } from "./bench.ts";

const SIMILAR = [
  ...["é", "e\u0301", "É", "E\u0301", "a", "A", " a", "a ", "a\u00a0", "ａ", "ß", "ss", "ı", "i"],
  ...["\ud800", "\udbff", "\udc00", "\ufffd", "\ud83d\ude00", "\ude00\ud83d", "?"],
];
const HOSTILE = [
  ...["{a}", "{b}", "{}", "}{", "\0", "\n", "\r\n", "*", "i1:{x}", ":", "1:", "'; --", "%s", "../.."],
  ...["__proto__", "constructor", "toString", "0", "00", "null", "🔑", "\ud800"],
];

/** Checks that each key has an entry of its own. */
async function checkApart(bench: IdempotencyBench, ids: readonly IdempotencyKey[]): Promise<void> {
  await Promise.all(
    ids.map(async (id, i) => {
      // Owners differ: the owner of a claim would start again.
      await bench.checkStarted(`owner-${i}`, 1, id);
      checkEqual(await bench.complete(`owner-${i}`, textResponse(`${i}`), id), true, `complete of key ${i}`);
    }),
  );
  await Promise.all(ids.map((id, i) => bench.checkCompleted(textResponse(`${i}`), id)));
}

export const keyCases: readonly IdempotencyCase[] = [
  {
    title: "keeps equal keys of two scopes apart",
    async run(bench) {
      const { scope } = bench;
      await checkApart(
        bench,
        ["", "1", "2"].map((suffix) => ({ scope: scope + suffix, key: "key" })),
      );
      checkEqual(
        await bench.store.renew({ scope: `${scope}3`, key: "key" }, "a", 1000),
        false,
        "renew in another scope",
      );
    },
  },
  {
    title: "keeps pairs apart that are equal when they are joined",
    async run(bench) {
      const { scope } = bench;
      await checkApart(bench, [
        { scope, key: "abc" },
        { scope: `${scope}a`, key: "bc" },
        { scope: `${scope}ab`, key: "c" },
        { scope: `${scope}:`, key: "abc" },
        { scope, key: ":abc" },
        { scope: `${scope.length}:${scope}`, key: "abc" },
      ]);
    },
  },
  {
    title: "keeps keys apart that differ in case, spaces, Unicode form or lone surrogates",
    run: (bench) =>
      checkApart(
        bench,
        SIMILAR.map((key) => bench.id(key)),
      ),
  },
  {
    title: "keeps huge keys and scopes apart",
    async run(bench) {
      const huge = "k".repeat(100_000);
      const { scope } = bench;
      await checkApart(bench, [
        bench.id(huge),
        bench.id(`${huge}x`),
        bench.id(`${huge.slice(1)}x`),
        { scope: scope + huge, key: "k" },
        { scope: `${scope + huge}x`, key: "k" },
      ]);
    },
  },
  {
    title: "accepts hostile keys and scopes",
    run: (bench) =>
      checkApart(
        bench,
        HOSTILE.flatMap((text) => [bench.id(text), { scope: text + bench.scope, key: "key" }]),
      ),
  },
];
