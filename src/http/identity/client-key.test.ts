/** Keys of clients: by verified token, by verified API key, and otherwise by IP address. */
import * as jose from "jose";
import { SluiceError } from "sluice";
import { clientKey, type IdentityOptions, type JwtOptions } from "sluice/http";
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

describe("an IP address", () => {
  it("becomes a key with its kind, and an IPv6 address with its network", async () => {
    expect(await clientKey({ peer, headers: {} })).toBe("ip:203.0.113.7");
    expect(await clientKey({ peer: "2001:db8:1:2ff::1", headers: {} })).toBe("ip:2001:db8:1:200::/56");
    expect(await clientKey({ peer: "2001:db8:1:2ff::1", headers: {} }, { ipv6Prefix: 48 })).toBe("ip:2001:db8:1::/48");
  });

  it("is required, unless unidentified is share", async () => {
    for (const missing of [undefined, "", "unknown", "127.1", "010.0.0.1"]) {
      const request = { peer: missing, headers: { "x-forwarded-for": "1.2.3.4" } };
      await expect(clientKey(request)).rejects.toMatchObject({ code: "unidentified" });
      expect(await clientKey(request, { unidentified: "share" })).toBe("ip:unidentified");
    }
  });

  it("is read from { peer, headers }, and a whole request throws (issue 13)", async () => {
    const request = { socket: { remoteAddress: peer }, headers: {}, method: "GET" };
    await expect(clientKey(request as never)).rejects.toThrow(
      "request must be { peer, headers }, such as { peer: request.socket.remoteAddress, headers: request.headers }",
    );
    expect(await clientKey({ peer: request.socket.remoteAddress, ...request })).toBe(ADDRESS);
  });

  it("is never confused with another one, even with more peers than the cache holds", async () => {
    const identity: IdentityOptions = {};
    const all = Array.from({ length: 3000 }, (_, i) => `10.0.${i >> 8}.${i & 255}`);
    for (let round = 0; round < 2; round++) {
      for (const peer of all) expect(await clientKey({ peer, headers: {} }, identity)).toBe(`ip:${peer}`);
    }
  });
});

describe("a user", () => {
  it("is identified by a verified token", async () => {
    expect(await clientKey(bearer(await token()), withSecret)).toBe("user:alice");
    expect(
      await clientKey({ peer, headers: new Headers({ Authorization: `bearer ${await token()}` }) }, withSecret),
    ).toBe("user:alice");
  });

  it("can be identified by another claim, whose name is part of the key", async () => {
    const identity: IdentityOptions = { jwt: { algorithms: ["HS256"], secret, claim: "tenant" } };
    expect(await clientKey(bearer(await token({ tenant: "acme" })), identity)).toBe("user/tenant:acme");
    expect(await clientKey(bearer(await token({ tenant: 7 })), identity)).toBe("user/tenant:7");
    for (const tenant of [undefined, "", null, {}, ["acme"], true]) {
      expect(await clientKey(bearer(await token({ tenant })), identity), String(tenant)).toBe(ADDRESS);
    }
  });

  it("is identified by a string or a safe integer, not by 1e999 (issue 13)", async () => {
    const identity: IdentityOptions = { jwt: { algorithms: ["HS256"], secret } };
    const named = async (payload: string) => clientKey(bearer(await forged({ alg: "HS256" }, payload)), identity);
    expect(await named('{"sub":42}')).toBe("user:42");
    for (const sub of ["1e999", "-1e999", "1.5", "9007199254740993", "1e21"]) {
      expect(await named(`{"sub":${sub}}`), sub).toBe(ADDRESS);
    }
  });

  it("is never confused with an IP address", async () => {
    expect(await clientKey(bearer(await token({ sub: "ip:1.2.3.4" })), withSecret)).toBe("user:ip:1.2.3.4");
    expect(await clientKey(bearer(await token({ sub: "1.2.3.4" })), withSecret)).toBe("user:1.2.3.4");
  });

  it("can have the token in a cookie", async () => {
    const jwt: JwtOptions = {
      algorithms: ["HS256"],
      secret,
      token: (header) => /(?:^|; )session=([^;]+)/.exec(header("cookie") ?? "")?.[1],
    };
    const headers = { cookie: `theme=dark; session=${await token()}` };
    expect(await clientKey({ peer, headers }, { jwt })).toBe("user:alice");
    expect(await clientKey({ peer, headers: {} }, { jwt })).toBe(ADDRESS);
  });

  it("takes precedence over an API key", async () => {
    const identity: IdentityOptions = { ...withSecret, apiKey: { verify: () => "machine" } };
    const headers = { authorization: `Bearer ${await token()}`, "x-api-key": "k" };
    expect(await clientKey({ peer, headers }, identity)).toBe("user:alice");
    expect(await clientKey({ peer, headers: { ...headers, authorization: "Bearer x" } }, identity)).toBe("key:machine");
  });
});

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

describe("an API key", () => {
  it("becomes a name or an HMAC if it is verified", async () => {
    const verify = async (key: string) => (key === "named" ? "account-1" : key === "right");
    const identity: IdentityOptions = { apiKey: { verify } };
    const holding = (key: string) => ({ peer, headers: { "x-api-key": key } });
    expect(await clientKey(holding("named"), identity)).toBe("key:account-1");
    const tag = await clientKey(holding("right"), identity);
    expect(tag).toMatch(/^key:#[0-9a-f]{32}$/);
    expect(await clientKey(holding("right"), { apiKey: { verify, hmacSecret: "other" } })).not.toBe(tag);
    for (const wrong of ["wrong", "", "x".repeat(5000)]) {
      expect(await clientKey(holding(wrong), identity)).toBe(ADDRESS);
    }
  });

  it("can be in another header", async () => {
    const identity: IdentityOptions = { apiKey: { header: "X-Token", verify: () => "holder" } };
    expect(await clientKey({ peer, headers: { "x-token": "k" } }, identity)).toBe("key:holder");
  });

  it("causes an error if verify rejects", async () => {
    const verify = () => Promise.reject(new Error("database"));
    await expect(clientKey({ peer, headers: { "x-api-key": "k" } }, { apiKey: { verify } })).rejects.toThrow(
      "database",
    );
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

describe("an invalid argument", () => {
  it.each([null, undefined, {}, { headers: null }])("throws: a request that is %o", async (request) => {
    await expect(clientKey(request as never)).rejects.toMatchObject({ option: "request" });
  });

  it.each<[string, unknown, string]>([
    ["true", true, "identity"],
    ["an unknown preset", "cloudfare", "preset"],
    ["a header without proxies", { header: "x-real-ip" }, "trustedProxies"],
    ["nginx without proxies", "nginx", "trustedProxies"],
    ["aws without proxies", { preset: "aws" }, "trustedProxies"],
    ["an empty list of proxies", { trustedProxies: [] }, "trustedProxies"],
    ["no hops", { trustedProxies: 0 }, "trustedProxies"],
    ["half a hop", { trustedProxies: 1.5 }, "trustedProxies"],
    ["trustedProxies: true", { trustedProxies: true }, "trustedProxies"],
    ["an invalid range", { trustedProxies: ["10.0.0.0/33"] }, "trustedProxies"],
    ["a range in octal", { trustedProxies: ["010.0.0.0/8"] }, "trustedProxies"],
    ["a range with a leading zero", { trustedProxies: ["10.0.0.0/08"] }, "trustedProxies"],
    ["all of IPv4", { trustedProxies: ["0.0.0.0/0"] }, "trustedProxies"],
    ["all of IPv6", { trustedProxies: ["::/0"] }, "trustedProxies"],
    ["all of IPv4, IPv4-mapped", { trustedProxies: ["::ffff:0:0/96"] }, "trustedProxies"],
    ["more hops than entries that are parsed", { trustedProxies: 65 }, "trustedProxies"],
    ["a host name", { trustedProxies: ["proxy.example"] }, "trustedProxies"],
    ["a header with a colon", { trustedProxies: 1, header: "x:y" }, "header"],
    ["too narrow a network", { ipv6Prefix: 65 }, "ipv6Prefix"],
    ["too wide a network", { ipv6Prefix: 31 }, "ipv6Prefix"],
    ["an unknown option", { trustProxy: true }, "trustProxy"],
    ["an invalid unidentified", { unidentified: "allow" }, "unidentified"],
    ["no algorithms", { jwt: { secret: SECRET } }, "jwt.algorithms"],
    ["algorithm none", { jwt: { secret: SECRET, algorithms: ["none"] } }, "jwt.algorithms"],
    [
      "an asymmetric algorithm for a secret",
      { jwt: { secret: SECRET, algorithms: ["HS256", "RS256"] } },
      "jwt.algorithms",
    ],
    ["a symmetric algorithm for public keys", { jwt: { jwks: { keys: [] }, algorithms: ["HS256"] } }, "jwt.algorithms"],
    ["secret and jwks", { jwt: { secret: SECRET, jwks: { keys: [] }, algorithms: ["HS256"] } }, "jwt"],
    ["neither secret nor jwks", { jwt: { algorithms: ["HS256"] } }, "jwt"],
    ["a short secret", { jwt: { secret: "short", algorithms: ["HS256"] } }, "jwt.secret"],
    ["a JWKS over http", { jwt: { jwks: "http://issuer.example/jwks", algorithms: ["RS256"] } }, "jwt.jwks"],
    ["an invalid JWKS URL", { jwt: { jwks: "jwks", algorithms: ["RS256"] } }, "jwt.jwks"],
    ["an empty claim", { jwt: { secret: SECRET, algorithms: ["HS256"], claim: "" } }, "jwt.claim"],
    ["a token that is not a function", { jwt: { secret: SECRET, algorithms: ["HS256"], token: "x" } }, "jwt.token"],
    ["an empty audience", { jwt: { secret: SECRET, algorithms: ["HS256"], audience: [] } }, "jwt.audience"],
    [
      "an audience that is not a string",
      { jwt: { secret: SECRET, algorithms: ["HS256"], audience: ["a", 5] } },
      "jwt.audience",
    ],
    ["an invalid API key header", { apiKey: { verify: () => true, header: "x api key" } }, "apiKey.header"],
    ["an API key without verify", { apiKey: {} }, "apiKey.verify"],
    ["an unknown apiKey option", { apiKey: { verify: () => true, hash: "md5" } }, "hash"],
  ])("throws with the name of the option: %s", async (_what, identity, option) => {
    const error = await clientKey({ peer, headers: {} }, identity as never).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(SluiceError);
    expect((error as SluiceError).option).toBe(option);
    expect((error as SluiceError).message).not.toContain(SECRET);
  });
});
