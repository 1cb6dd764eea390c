/** How request bodies are read on Node servers: the handler reads the same bytes, and a missing parser is an error. */
import { once } from "node:events";
import { type IncomingMessage, type RequestListener, request, type ServerResponse } from "node:http";
import { connect as connectHttp2, createServer as createHttp2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import express from "express";
import { fastify } from "fastify";
import { idempotent as idempotentExpress } from "sluice/express";
import { idempotent as idempotentFastify } from "sluice/fastify";
import { memoryIdempotencyStore } from "sluice/idempotency";
import { idempotent } from "sluice/node";
import { describe, expect, it, onTestFinished } from "vitest";
import { listen } from "../middleware/mount.ts";

const options = () => ({ store: memoryIdempotencyStore(), scope: () => "ada", maxBodyBytes: 2 ** 20 });

/** Ways to read a request. */
const READERS: Record<string, (request: IncomingMessage) => Promise<string>> = {
  async iteration(request) {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    return Buffer.concat(chunks).toString();
  },
  "data events": (request) =>
    new Promise((resolve) => {
      let text = "";
      request
        .setEncoding("utf8")
        .on("data", (chunk) => (text += chunk))
        .on("end", () => resolve(text));
    }),
  "readable events": (request) =>
    new Promise((resolve) => {
      const chunks: Buffer[] = [];
      request.on("readable", () => {
        for (let chunk = request.read(); chunk !== null; chunk = request.read()) chunks.push(chunk);
      });
      request.on("end", () => resolve(Buffer.concat(chunks).toString()));
    }),
  "a later listener": async (request) => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    return (READERS.iteration as (request: IncomingMessage) => Promise<string>)(request);
  },
};

const BODIES: Record<string, readonly string[]> = {
  empty: [],
  short: ["short"],
  chunks: ["a", "b", "é"],
  "64 kB": ["x".repeat(65_536)],
  "1 MiB": ["x".repeat(2 ** 20)],
  "1 MiB in chunks": new Array(64).fill("y".repeat(16_384)),
};

const echo =
  (read: (request: IncomingMessage) => Promise<string>): RequestListener =>
  async (request: IncomingMessage, response: ServerResponse) => {
    response.end(await read(request));
  };

/** Sends chunks as they are, with or without their length. */
function post(
  url: string,
  key: string,
  chunks: readonly string[],
  isChunked: boolean,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const length = Buffer.byteLength(chunks.join(""));
    const headers = { "Idempotency-Key": key, ...(isChunked ? {} : { "Content-Length": length }) };
    const sent = request(url, { method: "POST", headers }, async (response) => {
      let text = "";
      for await (const chunk of response.setEncoding("utf8")) text += chunk;
      resolve({ status: response.statusCode ?? 0, text });
    });
    sent.on("error", reject);
    for (const chunk of chunks) sent.write(chunk);
    sent.end();
  });
}

describe.each(Object.keys(READERS))("a handler of node:http that reads by %s", (reader) => {
  it.each(Object.keys(BODIES))("gets the whole body: %s", async (name) => {
    const chunks = BODIES[name] as readonly string[];
    const handler = echo(READERS[reader] as (typeof READERS)[string]);
    const { url, close } = await listen(idempotent(options())(handler));
    onTestFinished(close);
    for (const isChunked of [false, true]) {
      for (const key of ["a", "a", "b"]) {
        const sent = await post(url, `${key}${isChunked}`, chunks, isChunked);
        expect([sent.status, sent.text === chunks.join("")]).toEqual([200, true]);
      }
    }
  });
});

describe("a handler of node:http", () => {
  it("does not run for a body over 1 MiB, and the connection stays usable", async () => {
    let runs = 0;
    const { url, close } = await listen(idempotent(options())((_request, response) => void response.end(`${++runs}`)));
    onTestFinished(close);
    for (const isChunked of [false, true]) {
      const sent = await post(url, "a", new Array(65).fill("x".repeat(16_384)), isChunked);
      expect([sent.status, JSON.parse(sent.text).code]).toEqual([413, "body-too-long"]);
    }
    expect((await post(url, "a", ["x"], false)).text).toBe("1");
  });

  it("does not run for a client that disconnects before its body is complete", async () => {
    const store = memoryIdempotencyStore();
    let runs = 0;
    const { url, close } = await listen(
      idempotent({ ...options(), store })((_request, response) => void response.end(`${++runs}`)),
    );
    onTestFinished(close);
    const sent = request(url, { method: "POST", headers: { "Idempotency-Key": "a", "Content-Length": 10 } });
    sent.on("error", () => {}).write("12345");
    await new Promise((resolve) => setTimeout(resolve, 50));
    sent.destroy();
    expect((await post(url, "b", ["x"], false)).text).toBe("1");
    expect([runs, store.size]).toEqual([1, 1]);
  });
});

describe("a handler of HTTP/2", () => {
  it.each(Object.keys(BODIES))("gets the whole body: %s", async (name) => {
    const text = (BODIES[name] as readonly string[]).join("");
    const handler = idempotent(options())(echo(READERS.iteration as (typeof READERS)[string]));
    const server = createHttp2Server(handler as never);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const client = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    onTestFinished(() => {
      client.destroy();
      server.close();
    });
    const send = async (key: string) => {
      const stream = client.request({ ":method": "POST", ":path": "/", "idempotency-key": key }, { endStream: false });
      for (const chunk of BODIES[name] as readonly string[]) stream.write(chunk);
      stream.end();
      const [headers] = await once(stream, "response");
      let received = "";
      for await (const chunk of stream.setEncoding("utf8")) received += chunk;
      return [headers[":status"], headers["idempotent-replayed"], received === text];
    };
    expect([await send("a"), await send("a"), await send("b")]).toEqual([
      [200, undefined, true],
      [200, "true", true],
      [200, undefined, true],
    ]);
  });
});

const NOT_PARSED = /^idempotent: the body has not been parsed; mount it after the body parser, or set fingerprint/;

describe("Express", () => {
  const appWith = async (parse: express.RequestHandler | undefined, more: object = {}) => {
    const app = express();
    const errors: Error[] = [];
    if (parse) app.use(parse);
    app.use(
      idempotentExpress({ ...options(), ...more }),
      (request, response) => void response.json(request.body ?? null),
    );
    const fail: express.ErrorRequestHandler = (error, _request, response, _next) => {
      errors.push(error);
      response.status(500).end();
    };
    app.use(fail);
    const { url, close } = await listen(app as RequestListener);
    onTestFinished(close);
    const send = async (body: string | undefined, type = "application/json", key = "a") => {
      const headers = { "Idempotency-Key": key, ...(body === undefined ? {} : { "Content-Type": type }) };
      const response = await fetch(url, { method: "POST", headers, ...(body === undefined ? {} : { body }) });
      return [response.status, await response.text()];
    };
    return { send, errors };
  };

  it("fails before the body parser, and without one for the type of the body", async () => {
    const without = await appWith(undefined);
    expect([(await without.send('{"a":1}'))[0], without.errors[0]?.message]).toEqual([
      500,
      expect.stringMatching(NOT_PARSED),
    ]);
    expect((await without.send(undefined))[0]).toBe(200);
    const other = await appWith(express.json());
    expect([(await other.send("a=1", "text/plain"))[0], other.errors[0]?.message]).toEqual([
      500,
      expect.stringMatching(NOT_PARSED),
    ]);
  });

  it("compares parsed bodies", async () => {
    const { send } = await appWith(express.json());
    expect(await send('{"a":1}')).toEqual([200, '{"a":1}']);
    expect(await send('{ "a": 1 }')).toEqual([200, '{"a":1}']);
    expect((await send('{"a":2}'))[0]).toBe(422);
    expect((await send("{}"))[0]).toBe(422);
  });

  it("needs no parser with fingerprint", async () => {
    const { send } = await appWith(undefined, { fingerprint: () => "same" });
    expect([(await send('{"a":1}'))[0], (await send('{"a":2}'))[0]]).toEqual([200, 200]);
  });

  it.each([
    ["a Map", () => new Map([["a", 1]])],
    ["a bigint", () => ({ a: 1n })],
    ["a file", () => ({ file: new Blob(["x"]) })],
  ])("fails for a parsed body that can't be compared: %s", async (_name, parsed) => {
    const { send, errors } = await appWith((request, _response, next) => {
      request.resume().on("end", () => {
        request.body = parsed();
        next();
      });
    });
    expect([(await send('{"a":1}'))[0], errors[0]?.message]).toEqual([500, expect.stringContaining("set fingerprint")]);
  });
});

describe("Fastify", () => {
  it("fails as an onRequest hook, because the body is not parsed yet", async () => {
    const app = fastify();
    const errors: unknown[] = [];
    app.addHook("onError", async (_request, _reply, error) => void errors.push(error.cause));
    app.addHook("onRequest", idempotentFastify(options()));
    app.post("/", async ({ body }) => body);
    const send = () => app.inject({ method: "POST", url: "/", headers: { "idempotency-key": "a" }, payload: { a: 1 } });
    expect((await send()).statusCode).toBe(500);
    expect(String((errors[0] as Error).message)).toMatch(NOT_PARSED);
  });

  it("compares parsed bodies in a preHandler hook", async () => {
    const app = fastify();
    app.addHook("preHandler", idempotentFastify(options()));
    app.post("/", async ({ body }) => body);
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    onTestFinished(() => app.close());
    const send = async (body: string) => {
      const headers = { "Idempotency-Key": "a", "Content-Type": "application/json" };
      return (await fetch(url, { method: "POST", headers, body })).status;
    };
    expect([await send('{"a":1}'), await send('{ "a":1 }'), await send('{"a":2}')]).toEqual([200, 200, 422]);
  });
});
