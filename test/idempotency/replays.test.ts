/** Responses of ten kinds on a real server, with responses in memory and in Redis: a replay has the same bytes, or says why not. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { type IdempotencyStore, memoryIdempotencyStore } from "sluice/idempotency";
import { idempotent } from "sluice/node";
import { redisIdempotencyStore } from "sluice/redis";
import { describe, expect, it, onTestFinished } from "vitest";
import { listen } from "../middleware/mount.ts";
import { redis } from "../redis/own-redis.ts";
import { withRedis } from "../servers/needs.ts";

const MAX_BYTES = 65_536;
const bytes = (length: number) => new Uint8Array(length).map((_, i) => i * 31);

type Write = (response: ServerResponse) => void;

/** The kinds of responses, and whether their bodies are stored. */
const KINDS: Record<string, { write: Write; isStored?: false }> = {
  "0 B": { write: (response) => response.writeHead(201).end() },
  "64 kB": { write: (response) => response.writeHead(200, { "Content-Length": MAX_BYTES }).end(bytes(MAX_BYTES)) },
  "64 kB and a byte": { write: (response) => response.writeHead(200).end(bytes(MAX_BYTES + 1)), isStored: false },
  "an endless stream": {
    isStored: false,
    write(response) {
      response.writeHead(200);
      const timer = setInterval(() => response.write(bytes(MAX_BYTES / 4)), 1);
      response.on("close", () => clearInterval(timer));
    },
  },
  "a short stream": {
    write(response) {
      response.write("first ");
      setImmediate(() => response.end("last"));
    },
  },
  "server-sent events": {
    write: (response) => response.writeHead(200, { "Content-Type": "text/event-stream" }).end("data: 1\n\n"),
    isStored: false,
  },
  gzip: {
    write(response) {
      const headers = { "Content-Type": "application/json", "Content-Encoding": "gzip" };
      response.writeHead(200, headers).end(gzipSync(JSON.stringify({ text: "x".repeat(10_000) })));
    },
  },
  "204": { write: (response) => response.writeHead(204).end() },
  "304": { write: (response) => response.writeHead(304, { ETag: '"1"' }).end() },
  binary: { write: (response) => response.writeHead(200, { "Content-Type": "image/png" }).end(bytes(2000)) },
  "JSON in UTF-8": {
    write: (response) =>
      response.writeHead(201, { "Content-Type": "application/json", Location: "/1" }).end('{"name":"Zoë 💶"}'),
  },
};

const STORED_HEADERS = ["content-type", "content-encoding", "location", "etag"];

/** Reads a response as it was sent. `fetch` would decode gzip. */
async function send(url: string, key: string) {
  const { request } = await import("node:http");
  return new Promise<{ status: number; headers: IncomingMessage["headers"]; body: Buffer }>((resolve, reject) => {
    const sent = request(url, { method: "POST", headers: { "Idempotency-Key": key } }, (response) => {
      const chunks: Buffer[] = [];
      let length = 0;
      const end = () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) });
      response.on("data", (chunk: Buffer) => {
        chunks.push(chunk);
        length += chunk.length;
        // Enough of an endless one.
        if (length > 3 * MAX_BYTES) end();
      });
      response.on("end", end).on("error", reject);
    });
    sent.on("error", reject).end();
  });
}

const stores: [string, object, () => IdempotencyStore][] = [
  ["memory", {}, () => memoryIdempotencyStore()],
  ["Redis", withRedis, () => redisIdempotencyStore(redis)],
];

describe.each(stores)("responses stored in %s", (name, needs, create) => {
  it.each(Object.entries(KINDS))("are replayed: %s", needs, async (kind, { write, isStored = true }) => {
    const events: string[] = [];
    let runs = 0;
    const handler = idempotent({
      store: create(),
      scope: () => `${name} ${kind}`,
      deadlineMs: "20s",
      onEvent: ({ type }) => void events.push(type),
    })((_request, response) => {
      runs++;
      write(response);
    });
    const server = await listen(handler);
    onTestFinished(server.close);
    const key = `${Date.now()}`;
    const first = await send(server.url, key);
    const again = await send(server.url, key);
    expect(runs).toBe(1);
    if (!isStored) {
      expect([again.status, JSON.parse(String(again.body))]).toMatchObject([
        409,
        { code: "response-not-stored", "original-status": 200 },
      ]);
      expect(events).toEqual(["response-not-stored"]);
      return;
    }
    expect(again.headers["idempotent-replayed"]).toBe("true");
    expect([again.status, again.body.equals(first.body)]).toEqual([first.status, true]);
    for (const header of STORED_HEADERS) expect(again.headers[header], header).toBe(first.headers[header]);
    const { "content-length": length, "transfer-encoding": encoding } = again.headers;
    expect([length ?? "0", encoding]).toEqual([String(first.body.length), undefined]);
    expect(events).toEqual([]);
  });
});
