/** Methods that clients of HTTP/2 choose freely: their spelling changes no limit, and their text reaches no log (issue 30). */
import { once } from "node:events";
import type { RequestListener } from "node:http";
import { connect, createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { rateLimit as rateLimitFetch } from "sluice/fetch";
import { memoryIdempotencyStore } from "sluice/idempotency";
import { idempotent, rateLimit, toNodeHandler } from "sluice/node";
import { createObserver, jsonLog } from "sluice/observe";
import { loadRules } from "sluice/rules";
import { describe, expect, it, onTestFinished } from "vitest";

/** Starts an HTTP/2 server, and returns a function that sends one request. */
async function serve(listener: RequestListener) {
  const server = createServer(listener as never);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  onTestFinished(() => {
    session.close();
    server.close();
  });
  return async (method: string, headers: Record<string, string> = {}) => {
    const stream = session.request({ ":method": method, ":path": "/pay", ...headers }, { endStream: true });
    const [response] = await once(stream, "response");
    let text = "";
    for await (const chunk of stream) text += chunk;
    return { status: response[":status"] as number, text };
  };
}

const rules = () =>
  loadRules(
    {
      rules: [{ name: "pay", match: "POST|PATCH /pay", limits: { ip: "2/d" } }],
      fallback: { limits: { ip: "1000/d" } },
    },
    { facts: [] },
  );
const SPELLINGS = ["POST", "post", "Post", "pOST", "patch"];

describe("spellings of a method", () => {
  const handlers: Record<string, () => RequestListener> = {
    "rateLimit of sluice/node": () => rateLimit({ rules: rules() })((_request, response) => void response.end("ok")),
    "rateLimit of sluice/fetch in toNodeHandler": () =>
      toNodeHandler(rateLimitFetch({ rules: rules(), identity: { unidentified: "share" } })(() => new Response("ok"))),
    "rateLimit of sluice/node around toNodeHandler": () =>
      rateLimit({ rules: rules() })(toNodeHandler((request) => new Response(request.method))),
  };
  it.each(Object.entries(handlers))("share one limit with %s", async (_, create) => {
    const send = await serve(create());
    const statuses: number[] = [];
    for (const method of SPELLINGS) statuses.push((await send(method)).status);
    expect(statuses).toEqual([200, 200, 429, 429, 429]);
  });

  it("are one for idempotent, and run a request once", async () => {
    let handled = 0;
    const once = idempotent({ store: memoryIdempotencyStore(), scope: () => "ada", methods: ["POST"] });
    const send = await serve(once((_request, response) => void response.end(String(++handled))));
    const texts: string[] = [];
    for (const method of ["post", "POST", "Post"]) {
      texts.push((await send(method, { "idempotency-key": '"8e03978e-40d5-43dd-bc93-6894a57f9324"' })).text);
    }
    expect(texts).toEqual(["1", "1", "1"]);
  });

  it("are passed in upper case to handlers of a Request", async () => {
    const send = await serve(toNodeHandler((request) => new Response(request.method)));
    expect([(await send("patch")).text, (await send("get")).text]).toEqual(["PATCH", "GET"]);
  });

  it("are one for rule sets without a server", async () => {
    const set = rules();
    expect(set.find("post", "/pay").rule).toBe("pay");
    const request = { method: "pOst", path: "/pay", ip: "203.0.113.7" };
    const allowed: boolean[] = [];
    for (let i = 0; i < 3; i++) allowed.push((await set.consume(request)).allowed);
    expect(allowed).toEqual([true, true, false]);
  });
});

describe("methods in events and log lines", () => {
  it("are those that are known, in upper case, or other", async () => {
    const events: (string | undefined)[] = [];
    const lines: string[] = [];
    const observer = createObserver({ log: jsonLog((line) => void lines.push(line), { allowed: 1 }) });
    observer.on((event) => void (event.type === "decision" && events.push(event.method)));
    const limit = rateLimit({ policy: "1000/d", observer });
    const send = await serve(limit((_request, response) => void response.end("ok")));
    for (const method of ["GET", "post", "PROPFIND", "X".repeat(3000), "__proto__"]) await send(method);
    expect(events).toEqual(["GET", "POST", "other", "other", "other"]);
    expect(lines.length).toBe(5);
    expect(Math.max(0, ...lines.map((line) => line.length))).toBeLessThan(1000);
  });
});
