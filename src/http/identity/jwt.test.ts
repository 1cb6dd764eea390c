/** Verification of JSON Web Tokens: invalid tokens, remote key sets and their failures. */
import * as jose from "jose";
import { clientKey, type IdentityOptions } from "sluice/http";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";

const SECRET = "0123456789abcdef0123456789abcdef";
const ISSUER = "https://issuer.example";
const secret = new TextEncoder().encode(SECRET);
const peer = "203.0.113.7";
const ADDRESS = `ip:${peer}`;

const bearer = (token: string) => ({ peer, headers: { authorization: `Bearer ${token}` } });
const base64 = (value: unknown) => jose.base64url.encode(typeof value === "string" ? value : JSON.stringify(value));
const now = () => Math.floor(Date.now() / 1000);

const withSecret: IdentityOptions = {
  jwt: { algorithms: ["HS256"], secret: SECRET, issuer: ISSUER, audience: "api" },
};

/** A valid token, with changes. */
function token(claims: Record<string, unknown> = {}, header: Record<string, unknown> = {}, key: Uint8Array = secret) {
  const payload = { sub: "alice", iss: ISSUER, aud: "api", iat: now(), exp: now() + 60, ...claims };
  return new jose.SignJWT(payload).setProtectedHeader({ alg: "HS256", ...header }).sign(key);
}

/** A token signed by hand, with parts that no library would sign. */
async function forged(header: unknown, payload: unknown, key: Uint8Array = secret): Promise<string> {
  const signed = `${base64(header)}.${base64(payload)}`;
  const hmac = await crypto.subtle.importKey("raw", key as BufferSource, { name: "HMAC", hash: "SHA-256" }, false, [
    "sign",
  ]);
  const signature = await crypto.subtle.sign("HMAC", hmac, new TextEncoder().encode(signed));
  return `${signed}.${jose.base64url.encode(new Uint8Array(signature))}`;
}

describe("an invalid token", () => {
  let pair: jose.GenerateKeyPairResult;
  let strange: jose.GenerateKeyPairResult;
  let pem: string;
  const tried = new Set<string>();
  const invalidTokens: [string, () => Promise<string>][] = [
    ["alg none", async () => `${base64({ alg: "none" })}.${base64({ sub: "victim", iss: ISSUER, aud: "api" })}.`],
    ["alg None", async () => `${base64({ alg: "None" })}.${base64({ sub: "victim", iss: ISSUER, aud: "api" })}.`],
    ["alg NONE with a signature", () => forged({ alg: "NONE" }, { sub: "victim", iss: ISSUER, aud: "api" })],
    ["no alg", () => forged({ typ: "JWT" }, { sub: "victim", iss: ISSUER, aud: "api" })],
    ["alg as a list", () => forged({ alg: ["HS256"] }, { sub: "victim", iss: ISSUER, aud: "api" })],
    ["alg null", () => forged({ alg: null }, { sub: "victim", iss: ISSUER, aud: "api" })],
    ["another algorithm of the same secret", () => token({ sub: "victim" }, { alg: "HS512" })],
    ["another secret", () => token({ sub: "victim" }, {}, new Uint8Array(32))],
    ["an empty signature", async () => `${(await token({ sub: "victim" })).split(".").slice(0, 2).join(".")}.`],
    ["no signature", async () => (await token({ sub: "victim" })).split(".").slice(0, 2).join(".")],
    [
      "a signature of something else",
      async () => {
        const [head, , signature] = (await token()).split(".");
        return `${head}.${base64({ sub: "victim", iss: ISSUER, aud: "api", exp: now() + 60 })}.${signature}`;
      },
    ],
    [
      "a changed byte",
      async () => {
        const text = await token({ sub: "victim" });
        const at = text.lastIndexOf(".") + 5;
        return text.slice(0, at) + (text[at] === "A" ? "B" : "A") + text.slice(at + 1);
      },
    ],
    ["expired", () => token({ sub: "victim", exp: now() - 1 })],
    ["expired long ago", () => token({ sub: "victim", exp: 1 })],
    ["exp as text", () => forged({ alg: "HS256" }, { sub: "victim", iss: ISSUER, aud: "api", exp: "9999999999" })],
    ["not valid yet", () => token({ sub: "victim", nbf: now() + 3600 })],
    ["nbf as text", () => forged({ alg: "HS256" }, { sub: "victim", iss: ISSUER, aud: "api", nbf: "0" })],
    ["another issuer", () => token({ sub: "victim", iss: "https://evil.example" })],
    ["no issuer", () => token({ sub: "victim", iss: undefined })],
    ["an issuer with the same prefix", () => token({ sub: "victim", iss: `${ISSUER}.evil.example` })],
    ["issuers as a list", () => forged({ alg: "HS256" }, { sub: "victim", iss: [ISSUER], aud: "api" })],
    ["another audience", () => token({ sub: "victim", aud: "other" })],
    ["no audience", () => token({ sub: "victim", aud: undefined })],
    ["no subject", () => token({ sub: undefined })],
    ["an empty subject", () => token({ sub: "" })],
    [
      "a subject that is an object",
      () => forged({ alg: "HS256" }, { sub: { toString: "victim" }, iss: ISSUER, aud: "api" }),
    ],
    ["a subject that is a list", () => forged({ alg: "HS256" }, { sub: ["victim"], iss: ISSUER, aud: "api" })],
    [
      "an unknown critical extension",
      () => forged({ alg: "HS256", crit: ["admin"], admin: true }, { sub: "victim", iss: ISSUER, aud: "api" }),
    ],
    ["a payload that is a list", () => forged({ alg: "HS256" }, [{ sub: "victim", iss: ISSUER, aud: "api" }])],
    ["a payload that is not JSON", () => forged({ alg: "HS256" }, "victim")],
    [
      "unencoded payload (b64)",
      () => forged({ alg: "HS256", b64: false, crit: ["b64"] }, { sub: "victim", iss: ISSUER, aud: "api" }),
    ],
    [
      "its own key in the header (jwk)",
      async () =>
        new jose.SignJWT({ sub: "victim", iss: ISSUER, aud: "api" })
          .setProtectedHeader({ alg: "ES256", jwk: await jose.exportJWK(strange.publicKey) })
          .sign(strange.privateKey),
    ],
    [
      "a key elsewhere (jku, x5u)",
      () =>
        token(
          { sub: "victim" },
          { jku: "https://evil.example/jwks", x5u: "https://evil.example/x" },
          new Uint8Array(32),
        ),
    ],
    ["a kid that is a path", () => token({ sub: "victim" }, { kid: "../../../../dev/null" }, new Uint8Array(32))],
    ["a kid that is a query", () => token({ sub: "victim" }, { kid: "x' UNION SELECT 'key" }, new Uint8Array(32))],
    [
      "encrypted instead of signed",
      () =>
        new jose.EncryptJWT({ sub: "victim", iss: ISSUER, aud: "api" })
          .setProtectedHeader({ alg: "dir", enc: "A256GCM" })
          .encrypt(secret),
    ],
    ["four parts", async () => `${await token({ sub: "victim" })}.x`],
    ["only dots", async () => ".."],
    ["plain text", async () => "victim"],
    ["a very long token", async () => `${await token({ sub: "victim" })}${"A".repeat(10_000)}`],
  ];

  beforeAll(async () => {
    pair = await jose.generateKeyPair("ES256", { extractable: true });
    strange = await jose.generateKeyPair("ES256", { extractable: true });
    pem = await jose.exportSPKI(pair.publicKey);
  });

  it("is tested in at least 30 variants", () => {
    expect(new Set(invalidTokens.map(([name]) => name)).size).toBeGreaterThanOrEqual(30);
  });

  it.each(invalidTokens)("does not identify a user: %s", async (name, make) => {
    const text = await make();
    expect(tried.has(text), "every variant is a different token").toBe(false);
    tried.add(text);
    expect(await clientKey(bearer(text), withSecret), name).toBe(ADDRESS);
    // The same with a set of public keys.
    const jwks = { keys: [{ ...(await jose.exportJWK(pair.publicKey)), kid: "one", alg: "ES256" }] };
    const identity: IdentityOptions = { jwt: { algorithms: ["ES256"], jwks, issuer: ISSUER, audience: "api" } };
    expect(await clientKey(bearer(text), identity), `${name}, public keys`).toBe(ADDRESS);
  });

  it("does not identify a user: a public key used as a secret", async () => {
    const jwks = { keys: [{ ...(await jose.exportJWK(pair.publicKey)), kid: "one" }] };
    const identity: IdentityOptions = { jwt: { algorithms: ["ES256"], jwks, issuer: ISSUER, audience: "api" } };
    const right = new jose.SignJWT({ sub: "alice", iss: ISSUER, aud: "api" });
    const valid = await right.setProtectedHeader({ alg: "ES256", kid: "one" }).sign(pair.privateKey);
    expect(await clientKey(bearer(valid), identity)).toBe("user:alice");
    for (const key of [pem, pem.trim(), JSON.stringify(jwks.keys[0])]) {
      const confused = await forged(
        { alg: "HS256", kid: "one" },
        { sub: "victim", iss: ISSUER, aud: "api" },
        new TextEncoder().encode(key),
      );
      expect(await clientKey(bearer(confused), identity)).toBe(ADDRESS);
    }
  });

  it("does not create new keys: 10 000 random tokens from one IP address", async () => {
    const identity: IdentityOptions = { ...withSecret, apiKey: { verify: (key) => key === "right" } };
    const keys = new Set<string>();
    for (let i = 0; i < 10_000; i++) {
      const headers = { authorization: `Bearer ${i.toString(36)}.${i * 7}.x`, "x-api-key": `random-${i}` };
      keys.add(await clientKey({ peer, headers }, identity));
    }
    expect([...keys]).toEqual([ADDRESS]);
  });
});

describe("a remote key set", () => {
  it("verifies no token if it can't be fetched", async () => {
    const pair = await jose.generateKeyPair("RS256");
    const identity: IdentityOptions = { jwt: { algorithms: ["RS256"], jwks: "http://127.0.0.1:1/jwks" } };
    const text = await new jose.SignJWT({ sub: "alice" }).setProtectedHeader({ alg: "RS256" }).sign(pair.privateKey);
    expect(await clientKey(bearer(text), identity)).toBe(ADDRESS);
  });

  it("is fetched from its URL, also with jose passed as an option", async () => {
    const pair = await jose.generateKeyPair("RS256", { extractable: true });
    const keys = { keys: [{ ...(await jose.exportJWK(pair.publicKey)), kid: "a", alg: "RS256" }] };
    const { createServer } = await import("node:http");
    const server = createServer((_request, response) => response.end(JSON.stringify(keys)));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    try {
      const jwks = `http://127.0.0.1:${port}/jwks`;
      const text = await new jose.SignJWT({ sub: "alice" })
        .setProtectedHeader({ alg: "RS256", kid: "a" })
        .sign(pair.privateKey);
      expect(await clientKey(bearer(text), { jwt: { algorithms: ["RS256"], jwks } })).toBe("user:alice");
      expect(await clientKey(bearer(text), { jwt: { algorithms: ["RS256"], jwks: new URL(jwks), jose } })).toBe(
        "user:alice",
      );
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });
});

describe("a JWKS endpoint that fails (issue 13)", () => {
  afterEach(() => void vi.useRealTimers());

  /** A JWKS server that can fail on demand, and tokens signed with its keys. */
  async function endpoint() {
    const pairs = { a: await jose.generateKeyPair("RS256"), b: await jose.generateKeyPair("RS256") };
    const state = { ids: ["a"] as ("a" | "b")[], fails: false, requests: 0 };
    const { createServer } = await import("node:http");
    const server = createServer(async (_request, response) => {
      state.requests++;
      const keys = state.ids.map(async (kid) => ({
        ...(await jose.exportJWK(pairs[kid].publicKey)),
        kid,
        alg: "RS256",
      }));
      if (state.fails) response.writeHead(500).end();
      else response.end(JSON.stringify({ keys: await Promise.all(keys) }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const identity: IdentityOptions = { jwt: { algorithms: ["RS256"], jwks: `http://127.0.0.1:${port}/jwks` } };
    const keyOf = async (kid: string, pair: keyof typeof pairs = "a") => {
      const token = new jose.SignJWT({ sub: "alice" }).setProtectedHeader({ alg: "RS256", kid });
      return clientKey(bearer(await token.sign(pairs[pair].privateKey)), identity);
    };
    const close = () => {
      server.close();
      server.closeAllConnections();
    };
    // Only the clocks of jose and of the pause: sockets keep their timers.
    vi.useFakeTimers({ toFake: ["Date", "performance"] });
    return { state, keyOf, close };
  }

  it("leaves cached keys usable, even if tokens with unknown key ids are sent", async () => {
    const { state, keyOf, close } = await endpoint();
    try {
      expect(await keyOf("a")).toBe("user:alice");
      state.fails = true;
      for (let i = 0; i < 5; i++) {
        // After jose's cooldown an unknown key id makes it fetch the set.
        vi.advanceTimersByTime(31_000);
        expect(await keyOf(`unknown-${i}`, "b")).toBe(ADDRESS);
        expect(await keyOf("a")).toBe("user:alice");
      }
      // Long after jose's copy has expired.
      vi.advanceTimersByTime(3_600_000);
      expect(await keyOf("a")).toBe("user:alice");
    } finally {
      close();
    }
  });

  it("is not requested again for 5 s, and withdrawn keys are removed when it recovers", async () => {
    const { state, keyOf, close } = await endpoint();
    try {
      await keyOf("a");
      state.fails = true;
      vi.advanceTimersByTime(31_000);
      await keyOf("b", "b");
      expect(state.requests).toBe(2);
      for (let i = 0; i < 10; i++) expect(await keyOf(`unknown-${i}`, "b")).toBe(ADDRESS);
      expect(state.requests).toBe(2);
      Object.assign(state, { fails: false, ids: ["b"] });
      vi.advanceTimersByTime(5000);
      expect(await keyOf("b", "b")).toBe("user:alice");
      expect(state.requests).toBe(3);
      expect(await keyOf("a")).toBe(ADDRESS);
    } finally {
      close();
    }
  });
});

describe("a JWKS endpoint that always fails", () => {
  it("is requested once by consecutive requests", async () => {
    let requests = 0;
    const { createServer } = await import("node:http");
    const server = createServer((_request, response) => {
      requests++;
      response.writeHead(500).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const identity: IdentityOptions = { jwt: { algorithms: ["RS256"], jwks: { href: `http://127.0.0.1:${port}/` } } };
    const text = `${base64({ alg: "RS256" })}.${base64({ sub: "victim" })}.AAAA`;
    for (let i = 0; i < 20; i++) expect(await clientKey(bearer(text), identity)).toBe(ADDRESS);
    server.close();
    server.closeAllConnections();
    expect(requests).toBe(1);
  });
});
