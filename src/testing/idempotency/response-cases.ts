/** Cases about responses: every byte, header and status is replayed as it was stored. */

import type { StoredResponse } from "../../idempotency/idempotency-store.ts";
import { checkEqual } from "../check.ts";
import { type IdempotencyBench, type IdempotencyCase, textResponse } from "./bench.ts";

const encoder = new TextEncoder();

/** Stores responses, each under a key of its own, and checks that they are replayed. */
async function checkReplays(bench: IdempotencyBench, responses: readonly StoredResponse[]): Promise<void> {
  await Promise.all(
    responses.map(async (response, i) => {
      const id = bench.id(`response ${i}`);
      await bench.checkStarted("a", 1, id);
      checkEqual(await bench.complete("a", response, id), true, "complete");
      await bench.checkCompleted(response, id);
    }),
  );
}

const withBody = (body: Uint8Array | null): StoredResponse => ({ ...textResponse(""), body });
const withText = (text: string): StoredResponse => withBody(encoder.encode(text));

export const responseCases: readonly IdempotencyCase[] = [
  {
    title: "replays an empty body, which is not an absent one",
    run: (bench) => checkReplays(bench, [withBody(new Uint8Array(0)), withBody(null)]),
  },
  {
    title: "replays status and location of a response whose body was not stored",
    run: (bench) => checkReplays(bench, [{ status: 201, headers: { location: "/orders/42" }, body: null }]),
  },
  {
    title: "replays every value of a byte, among others and alone",
    async run(bench) {
      const all = Uint8Array.from({ length: 256 }, (_, i) => i);
      const alone = [0, 9, 10, 13, 32, 34, 92, 127, 128, 192, 239, 255].map((byte) => Uint8Array.of(byte));
      await checkReplays(bench, [all, all.slice().reverse(), ...alone].map(withBody));
    },
  },
  {
    title: "replays 64 kB of binary data",
    async run(bench) {
      let state = 1;
      const bytes = Uint8Array.from({ length: 65_536 }, () => (state = (state * 48_271) % 2_147_483_647) & 0xff);
      await checkReplays(bench, [withBody(bytes), withBody(bytes.slice(1))]);
    },
  },
  {
    title: "replays 64 kB of text",
    run: (bench) => checkReplays(bench, [withText("x".repeat(65_536)), withText('"π≠€𝄞\\'.repeat(4096))]),
  },
  {
    title: "replays byte order marks, NUL and line breaks",
    run: (bench) =>
      checkReplays(bench, ["\uFEFFtext", "\0", "a\0b\0", "\n", "\r\n\n", "\u2028\u0085", "\uFFFD"].map(withText)),
  },
  {
    title: "replays a body that is cut within a character",
    async run(bench) {
      const bytes = encoder.encode("π≠€𝄞");
      await checkReplays(
        bench,
        [1, 3, 6, 9, 12].map((length) => withBody(bytes.slice(0, length))),
      );
    },
  },
  {
    title: "replays bodies that look like JSON, numbers or base64",
    run: (bench) =>
      checkReplays(
        bench,
        ['{"a":1}', "[1]", "7", "007", "1e3", "null", "true", '"text"', "YWJjZA==", "OK", "i1 foreign"].map(withText),
      ),
  },
  {
    title: "replays header values with their lists, quotes and characters",
    async run(bench) {
      const headers = {
        "content-type": 'text/plain; charset="utf-8"',
        "X-Mixed-Case": "kept",
        link: ["</a>; rel=next", "</b>; rel=prev"],
        "x-empty": "",
        "x-none": [],
        "x-latin-1": "café \xa0\xff",
        "x-unicode": "π ≠ 𝄞 \ud800",
        "x-tab": "a\tb",
        "x-backslash": '\\n\\"{}[]',
        constructor: "name",
        ["__proto__"]: "an own member",
      };
      await checkReplays(bench, [
        { ...textResponse("x"), headers },
        { ...textResponse("x"), headers: {} },
      ]);
    },
  },
  {
    title: "replays every kind of status",
    run: (bench) =>
      checkReplays(
        bench,
        [200, 201, 204, 301, 304, 400, 404, 422, 500, 599].map((status) => ({ ...textResponse("x"), status })),
      ),
  },
  {
    title: "reads a response with the fingerprint of its request only, and nothing before there is one",
    async run(bench) {
      checkEqual(await bench.read(), undefined, "a key that was never claimed");
      await bench.checkStarted("a", 1);
      checkEqual(await bench.read(), undefined, "a claim");
      checkEqual(await bench.complete("a"), true, "complete");
      checkEqual(await bench.read("f2"), undefined, "another fingerprint");
      checkEqual(await bench.read("f1", bench.id("other")), undefined, "another key");
      checkEqual((await bench.read())?.status, 201, "the status of the response");
    },
  },
  {
    title: "returns a copy of the response, and stores a copy of it",
    async run(bench) {
      await bench.checkStarted("a", 1);
      const response = textResponse("original");
      checkEqual(await bench.complete("a", response), true, "complete");
      response.body?.fill(0);
      (response.headers as Record<string, string>)["content-type"] = "changed";
      for (let i = 0; i < 2; i++) {
        await bench.checkCompleted(textResponse("original"));
        const replayed = await bench.read();
        if (!replayed) throw new Error("The response is gone.");
        replayed.body?.fill(0);
        (replayed.headers as Record<string, string>)["content-type"] = "changed";
      }
    },
  },
];
