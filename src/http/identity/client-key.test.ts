/** Keys of clients: by verified token, by verified API key, and otherwise by IP address. */
import * as jose from "jose";
import { SluiceError } from "sluice";
import { clientKey, type IdentityOptions, type JwtOptions } from "sluice/http";
import { describe, expect, it } from "vitest";

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
