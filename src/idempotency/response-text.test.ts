/** Exactness and size of stored responses. */
import { describe, expect, it } from "vitest";
import type { StoredResponse } from "./idempotency-store.ts";
import { decodeResponse, encodeResponse } from "./response-text.ts";

const encoder = new TextEncoder();
const responseOf = (body: Uint8Array | null): StoredResponse => ({
  status: 201,
  headers: { "content-type": "application/json", location: "/orders/42" },
  body,
});

describe("an encoded response", () => {
  it("never changes within a version, because stored ones must be replayed after an update", () => {
    expect(encodeResponse(responseOf(encoder.encode('{"id":42}')))).toBe(
      '1[201,{"content-type":"application/json","location":"/orders/42"},"t"]\n{"id":42}',
    );
    expect(encodeResponse({ status: 200, headers: { a: ["1", "2"] }, body: Uint8Array.of(0, 255) })).toBe(
      '1[200,{"a":["1","2"]},"b"]\nAP8=',
    );
    expect(encodeResponse({ status: 204, headers: {}, body: null })).toBe('1[204,{},"n"]\n');
  });

  it("is exact for every sequence of two bytes", () => {
    for (let i = 0; i < 65_536; i += 1) {
      const body = Uint8Array.of(i >> 8, i & 255);
      const decoded = decodeResponse(encodeResponse(responseOf(body))).body as Uint8Array;
      if (decoded[0] !== body[0] || decoded[1] !== body[1] || decoded.length !== 2) expect(decoded).toEqual(body);
    }
  });

  it("is text that UTF-8 keeps, for every body", () => {
    for (const body of [encoder.encode("\uFEFFπ\0\n𝄞"), Uint8Array.of(0xed, 0xa0, 0x80), Uint8Array.of(0xc0, 0x80)]) {
      const text = encodeResponse(responseOf(body));
      expect(new TextDecoder().decode(encoder.encode(text))).toBe(text);
      expect(decodeResponse(text)).toEqual(responseOf(body));
    }
  });

  it("takes no more than its head for text, and a third more for other bytes", () => {
    const head = encodeResponse(responseOf(new Uint8Array(0))).length;
    const sizeOf = (body: Uint8Array) => encoder.encode(encodeResponse(responseOf(body))).length - head;
    expect(sizeOf(encoder.encode(JSON.stringify({ name: "Łódź €" }).repeat(100)))).toBe(2200);
    expect(sizeOf(new Uint8Array(30_000).fill(255))).toBe(40_000);
  });
});
