/** Headers of attackers, byte by byte on a socket: they never get the response of another user. */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect } from "node:net";
import { memoryIdempotencyStore } from "sluice/idempotency";
import { idempotent } from "sluice/node";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Random, randomFrom } from "../../src/testing/random.ts";
import { listen } from "../middleware/mount.ts";

const COUNT = 10_000;
const SECRET = "the balance of ada";
const KEY = "8e03978e-40d5-43dd-bc93-6894a57f9324";

/** Header lines that look like the key of another user. */
function hostileLines(random: Random): string[] {
  const part = (): string =>
    random.pick([
      KEY,
      `"${KEY}"`,
      KEY.slice(0, random.whole(0, KEY.length)),
      ",",
      ", ",
      ";",
      '"',
      "\\",
      '\\"',
      " ",
      "\t",
      "\0",
      "\r",
      "\n",
      "\r\n ",
      "\x7f",
      "\xff",
      "ada",
      "x-user: ada",
      "%0d%0aX-User: ada",
      "x".repeat(random.whole(1, 600)),
    ]);
  const value = () => Array.from({ length: random.whole(0, 5) }, part).join("");
  const name = () =>
    random.pick(["Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY", "Idempotency-Key ", "Idempotency_Key"]);
  return Array.from({ length: random.whole(1, 3) }, () => `${name()}:${random.pick(["", " "])}${value()}`);
}

async function server() {
  let runs = 0;
  const scope = ({ headers }: IncomingMessage) => {
    const user = headers["x-user"];
    // As authentication would: only users that exist.
    return user === "ada" || user === "mallory" ? user : undefined;
  };
  const handler = idempotent({ store: memoryIdempotencyStore(), scope, replayLimit: "1000000/s", onEvent() {} })(
    (request, response) => {
      runs++;
      response.end(request.headers["x-user"] === "ada" ? SECRET : "mallory's own");
    },
  );
  const { url, close } = await listen(handler);
  onTestFinished(close);
  return { url, port: Number(new URL(url).port), runs: () => runs };
}

/** Sends a request, and returns the response up to the end of the connection. */
async function sendRaw(port: number, lines: readonly string[]): Promise<string> {
  const socket = connect(port, "127.0.0.1").setEncoding("latin1");
  let text = "";
  socket.on("data", (chunk) => (text += chunk)).on("error", () => {});
  socket.end(["POST / HTTP/1.1", "Host: x", "Connection: close", ...lines, "", ""].join("\r\n"), "latin1");
  await once(socket, "close");
  return text;
}

describe("hostile headers", () => {
  it(`never get another user's response, in ${COUNT} requests`, async () => {
    const { url, port } = await server();
    const headers = { "X-User": "ada", "Idempotency-Key": KEY };
    expect(await (await fetch(url, { method: "POST", headers })).text()).toBe(SECRET);
    const random = randomFrom(1);
    const statuses = new Map<number, number>();
    const send = async () => {
      const lines = hostileLines(random);
      const text = await sendRaw(port, ["X-User: mallory", ...lines]);
      const status = Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 0);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      expect(text, JSON.stringify(lines)).not.toContain(SECRET);
      expect([200, 400, 409, 422, 431], JSON.stringify([lines, text])).toContain(status);
    };
    for (let i = 0; i < COUNT; i += 50) await Promise.all(Array.from({ length: 50 }, send));
    // Both kinds occur often: malformed keys, and those that are valid or that no header has.
    expect(statuses.get(400)).toBeGreaterThan(COUNT / 4);
    expect(statuses.get(200)).toBeGreaterThan(COUNT / 20);
  });

  it("are rejected if there are two lines, even with the same key", async () => {
    const { port, runs } = await server();
    for (const key of [KEY, `"${KEY}"`]) {
      const text = await sendRaw(port, ["X-User: mallory", `Idempotency-Key: ${key}`, `Idempotency-Key: ${key}`]);
      expect(text).toContain("key-malformed");
    }
    expect(runs()).toBe(0);
  });

  it("are rejected if they are empty", async () => {
    const { port, runs } = await server();
    for (const line of ["Idempotency-Key:", "Idempotency-Key: ", 'Idempotency-Key: ""']) {
      expect(await sendRaw(port, ["X-User: mallory", line])).toContain("key-malformed");
    }
    expect(runs()).toBe(0);
  });

  it("keep the keys of two users apart", async () => {
    const { url, runs } = await server();
    const texts = [];
    for (const user of ["ada", "mallory", "ada", "mallory"]) {
      const response = await fetch(url, { method: "POST", headers: { "X-User": user, "Idempotency-Key": KEY } });
      texts.push(`${await response.text()} ${response.headers.has("Idempotent-Replayed")}`);
    }
    expect(texts).toEqual([`${SECRET} false`, "mallory's own false", `${SECRET} true`, "mallory's own true"]);
    expect(runs()).toBe(2);
  });
});
