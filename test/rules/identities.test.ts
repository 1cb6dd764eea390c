import { SignJWT } from "jose";
import { rateLimit } from "sluice/fetch";
import { loadRules } from "sluice/rules";
import { describe, expect, test, vi } from "vitest";

const FALLBACK = { limits: { ip: "100/h" } } as const;
const rules = (list: readonly object[], facts: readonly string[] = [], more: object = {}) =>
  loadRules({ rules: list, fallback: FALLBACK, ...more }, { facts });

/** Sends requests to a handler that responds with 200. */
function app(options: object) {
  const handler = rateLimit(options as never)((_request: Request, _environment: object) => new Response("ok"));
  return (path: string, init: RequestInit = {}, ip = "203.0.113.7") =>
    handler(new Request(`http://localhost${path}`, init), { remoteAddr: { hostname: ip } });
}

describe("identities", () => {
  const secret = "a secret of at least thirty-two bytes";
  const jwt = { algorithms: ["HS256"], secret };
  const token = (sub: string) =>
    new SignJWT({ sub })
      .setProtectedHeader({ alg: "HS256" })
      .setExpirationTime("1h")
      .sign(new TextEncoder().encode(secret));

  test("verify a token only if a limit needs the user", async () => {
    const read = vi.fn((request: Request) => request.headers.get("authorization")?.slice(7));
    const set = rules([
      { name: "ip", match: "/ip", limits: { ip: "5/h", network: "50/h" } },
      { name: "user", match: "/user", limits: { user: "1/h", client: "5/h", ip: "50/h" } },
    ]);
    const send = app({
      rules: set,
      identity: {
        jwt: {
          ...jwt,
          token: (header: (name: string) => string | undefined) => {
            read(new Request("http://x", { headers: { authorization: header("authorization") ?? "" } }));
            return header("authorization")?.slice(7);
          },
        },
      },
    });
    const headers = { Authorization: `Bearer ${await token("42")}` };
    await send("/ip", { headers });
    expect(read).toHaveBeenCalledTimes(0);
    expect((await send("/user", { headers })).status).toBe(200);
    expect(read).toHaveBeenCalledTimes(1);
    expect((await send("/user", { headers }, "198.51.100.9")).status).toBe(429);
    expect((await send("/user")).status).toBe(200);
  });

  test("prefer the user of a fact, and fall back to the API key and the address", async () => {
    const keys: string[] = [];
    const send = app({
      rules: rules([{ name: "r", match: "/*", limits: { client: "100/h" } }]),
      facts: { user: (request: Request) => request.headers.get("x-user") ?? undefined },
      identity: { apiKey: { verify: (key: string) => (key === "good" ? "acme" : false) } },
      onDecision: ({ key }: { key: string }) => keys.push(key),
    });
    await send("/", { headers: { "X-User": "7", "X-Api-Key": "good" } });
    await send("/", { headers: { "X-Api-Key": "good" } });
    await send("/", { headers: { "X-Api-Key": "bad" } });
    expect(keys).toEqual(["user:7", "key:acme", "ip:203.0.113.7"]);
  });

  test("count networks by /24 and /48", async () => {
    const send = app({ rules: rules([{ name: "r", match: "/*", limits: { network: "1/h" } }]) });
    const statuses = [];
    for (const ip of [
      "203.0.113.7",
      "203.0.113.200",
      "203.0.114.7",
      "2001:db8:1:1::1",
      "2001:db8:1:2::1",
      "2001:db8:2::1",
    ]) {
      statuses.push((await send("/", {}, ip)).status);
    }
    expect(statuses).toEqual([200, 429, 200, 200, 429, 200]);
  });
});
