/** Keys of clients by presets and tokens. */
import { fixedWindow } from "sluice";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type Gate, openGate } from "./gate.ts";
import type { RateLimitOptions } from "./options.ts";
import type { RequestReader } from "./request-reader.ts";

interface Fake {
  method?: string;
  headers?: Record<string, string>;
  peer?: string | undefined;
  body?: boolean;
}
type Args = readonly [Fake];
type Options = RateLimitOptions<Args, void>;

const reader: RequestReader<Args> = {
  method: ([request]) => request.method ?? "GET",
  header: ([request], name) => request.headers?.[name],
  peer: ([request]) => ("peer" in request ? request.peer : "192.0.2.1"),
  hasBody: ([request]) => request.body === true,
  path: () => "/",
  body: async () => undefined,
  repeatable: true,
};

function gateOf(options: Options): Gate<Args> {
  return openGate(options, reader);
}

const enter = (gate: Gate<Args>, request: Fake = {}) => gate.enter([request]);

describe("a token", () => {
  it("is reported once if the keys can't be fetched, and the user is identified by IP address", async () => {
    const events: unknown[] = [];
    const keys: string[] = [];
    const gate = gateOf({
      policy: "9/m",
      identity: { jwt: { algorithms: ["RS256"], jwks: "http://127.0.0.1:1/jwks" } },
      onEvent: (event) => void events.push(event),
      onDecision: ({ key }) => void keys.push(key),
    });
    const token = `${btoa('{"alg":"RS256"}')}.${btoa('{"sub":"alice"}')}.AAAA`.replaceAll("=", "");
    for (let i = 0; i < 3; i++) await enter(gate, { headers: { authorization: `Bearer ${token}` } });
    expect(keys).toEqual(["ip:192.0.2.1", "ip:192.0.2.1", "ip:192.0.2.1"]);
    expect(events).toMatchObject([{ type: "warning", message: expect.stringContaining("can't be verified") }]);
  });

  it("is not reported if it is invalid", async () => {
    const events: unknown[] = [];
    const secret = "0123456789abcdef0123456789abcdef";
    const identity = { jwt: { algorithms: ["HS256"], secret } };
    const gate = gateOf({ policy: "9/m", identity, onEvent: (event) => void events.push(event) });
    for (const token of ["x", "a.b.c", `${btoa('{"alg":"none"}')}.${btoa("{}")}.`]) {
      await enter(gate, { headers: { authorization: `Bearer ${token}` } });
    }
    expect(events).toEqual([]);
  });
});

describe("preset", () => {
  const globals = globalThis as { Netlify?: unknown };
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.unstubAllGlobals();
    delete globals.Netlify;
  });

  const keyOf = (options: Partial<Options>, request: Fake): string => {
    let seen = "";
    const gate = gateOf({ policy: fixedWindow("9/m"), onDecision: ({ key }) => void (seen = key), ...options });
    enter(gate, request);
    return seen;
  };

  it.each([
    ["vercel", "x-vercel-forwarded-for", (): void => void vi.stubEnv("VERCEL", "1")],
    ["fly", "fly-client-ip", (): void => void vi.stubEnv("FLY_APP_NAME", "app")],
    ["netlify", "x-nf-client-connection-ip", (): void => void (globals.Netlify = {})],
    [
      "cloudflare",
      "cf-connecting-ip",
      (): void => void vi.stubGlobal("navigator", { userAgent: "Cloudflare-Workers" }),
    ],
  ] as const)("%s is trusted on its own platform only", (identity, header, startPlatform) => {
    const request = { headers: { [header]: "203.0.113.9" }, peer: "10.0.0.1" };
    expect(keyOf({ identity }, request)).toBe("ip:10.0.0.1");
    startPlatform();
    expect(keyOf({ identity }, request)).toBe("ip:203.0.113.9");
    for (const invalid of ["203.0.113.9, 1.2.3.4", "unknown", ""]) {
      expect(keyOf({ identity }, { headers: { [header]: invalid }, peer: "10.0.0.1" })).toBe("ip:10.0.0.1");
    }
  });

  it("cloudflare is trusted if the peer is in its address ranges", () => {
    const headers = { "cf-connecting-ip": "203.0.113.9" };
    expect(keyOf({ identity: "cloudflare" }, { headers, peer: "172.70.1.1" })).toBe("ip:203.0.113.9");
    expect(keyOf({ identity: "cloudflare" }, { headers, peer: "2606:4700::1" })).toBe("ip:203.0.113.9");
    expect(keyOf({ identity: "cloudflare" }, { headers, peer: "198.51.100.1" })).toBe("ip:198.51.100.1");
  });

  it.each([
    ["nginx", "x-real-ip"],
    ["fastly", "fastly-client-ip"],
    ["aws", "x-forwarded-for"],
  ] as const)("%s is trusted from the proxies in trustedProxies", (preset, header) => {
    const identity = { preset, trustedProxies: ["10.0.0.0/8"] };
    const headers = { [header]: "203.0.113.9" };
    expect(keyOf({ identity }, { headers, peer: "10.1.2.3" })).toBe("ip:203.0.113.9");
    expect(keyOf({ identity }, { headers, peer: "198.51.100.1" })).toBe("ip:198.51.100.1");
  });
});
