import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type BindTo, Clearances, clearanceText } from "./clearance.ts";

const NOW = 1_800_000_000_000;
const TTL_MS = 1_800_000;
const [OLD, NEW] = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)];
const client = { ip: "203.0.113.7", userAgent: "Firefox/150", host: "app.example" };

const clearances = (secrets = [OLD], bindTo: BindTo = "network+user-agent") =>
  new Clearances({ secrets, ttlMs: TTL_MS, bindTo });
const issued = (of = clearances(), to: Parameters<Clearances["issue"]>[0] = client) => {
  const clearance = of.issue(to);
  if (!clearance) throw new Error("no clearance");
  return clearance;
};

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: NOW }));
afterEach(() => void vi.useRealTimers());

describe("a clearance", () => {
  it("has the documented format", () => {
    const { id, text, cookie } = issued();
    const expiry = NOW + TTL_MS;
    expect(text).toMatch(new RegExp(`^v2\\.[0-9a-f]{8}\\.${expiry}\\.${id}\\.[0-9a-f]{32}\\.[0-9a-f]{64}$`));
    expect(id).toMatch(/^[0-9a-f]{32}$/);
    expect(cookie).toBe(`__Host-sluice-clearance=${text}; Path=/; Max-Age=1800; Secure; HttpOnly; SameSite=Lax`);
  });

  it("stays valid in later versions", () => {
    // Computed with node:crypto.
    const text =
      "v2.98690851.1800001800000.00000000000000000000000000000000.ca4bdbce0628a3c4fbacbdccbbdb5a36.c93da9738190c734d3cbefb6282fd6663b9464a0d5fb0ce17865f74eb97af484";
    expect(clearances().verify(text, client)).toBe("0".repeat(32));
  });

  it("has another id every time", () => {
    expect(new Set(Array.from({ length: 100 }, () => issued().id)).size).toBe(100);
  });

  it("is valid until it expires", () => {
    const { id, text } = issued();
    vi.setSystemTime(NOW + TTL_MS - 1);
    expect(clearances().verify(text, client)).toBe(id);
    vi.setSystemTime(NOW + TTL_MS);
    expect(clearances().verify(text, client)).toBeUndefined();
  });

  it("can't be prolonged", () => {
    const text = issued().text.replace(String(NOW + TTL_MS), String(NOW + 2 * TTL_MS));
    expect(clearances().verify(text, client)).toBeUndefined();
  });
});

describe("the binding", () => {
  it.each([
    ["the same address", { ip: "203.0.113.7" }, true],
    ["another site with the same secret (issue 30)", { host: "other.example" }, false],
    ["no host", { host: "" }, false],
    ["another address of the /24", { ip: "203.0.113.250" }, true],
    ["the same address in IPv6", { ip: "::ffff:203.0.113.7" }, true],
    ["another /24", { ip: "203.0.114.7" }, false],
    ["IPv6", { ip: "2001:db8::1" }, false],
    ["no address", { ip: undefined }, false],
    ["something else", { ip: "localhost" }, false],
    ["another User-Agent", { userAgent: "Firefox/151" }, false],
    ["no User-Agent", { userAgent: undefined }, false],
    ["a longer User-Agent", { userAgent: "Firefox/150 " }, false],
  ])("with %s", (_title, change, isValid) => {
    const { id, text } = issued();
    expect(clearances().verify(text, { ...client, ...change })).toBe(isValid ? id : undefined);
  });

  it.each([
    ["2001:db8:0:100::1", "2001:db8:0:1ff:ffff::9", true],
    ["2001:db8:0:100::1", "2001:db8:0:200::1", false],
  ])("of %s and %s is the same: %s", (first, second, isSame) => {
    const { id, text } = issued(clearances(), { ...client, ip: first });
    expect(clearances().verify(text, { ...client, ip: second })).toBe(isSame ? id : undefined);
  });

  it("is the User-Agent alone if configured", () => {
    const of = clearances([OLD], "user-agent");
    const { id, text } = issued(of, { ...client, ip: undefined });
    expect(of.verify(text, { ...client, ip: "198.51.100.1" })).toBe(id);
    expect(of.verify(text, { ...client, userAgent: "curl" })).toBeUndefined();
    expect(clearances().verify(text, client)).toBeUndefined();
    expect(of.verify(issued().text, client)).toBeUndefined();
  });

  it("does not confuse network and User-Agent", () => {
    const of = clearances([OLD], "user-agent");
    const { text } = issued(clearances(), client);
    expect(of.verify(text, { ...client, ip: undefined, userAgent: "203.0.113.0/24\nFirefox/150" })).toBeUndefined();
  });

  it("reads at most 512 characters of the User-Agent", () => {
    const { id, text } = issued(clearances(), { ...client, userAgent: `${"x".repeat(512)}1` });
    expect(clearances().verify(text, { ...client, userAgent: `${"x".repeat(512)}2` })).toBe(id);
    expect(clearances().verify(text, { ...client, userAgent: `${"x".repeat(511)}2` })).toBeUndefined();
  });

  it("needs an address", () => {
    expect(clearances().issue({ ...client, ip: undefined })).toBeUndefined();
    expect(clearances().canIssue({ ...client, ip: undefined })).toBe(false);
    expect(clearances([OLD], "user-agent").canIssue({ ...client, ip: undefined })).toBe(true);
  });
});

describe("rotation", () => {
  it("signs with the first key and accepts both", () => {
    const both = clearances([NEW, OLD]);
    const [before, during] = [issued(), issued(both)];
    expect(both.verify(before.text, client)).toBe(before.id);
    expect(both.verify(during.text, client)).toBe(during.id);
    expect(clearances([NEW]).verify(during.text, client)).toBe(during.id);
    // Signed with the new key, so removing the old one does not end it.
    expect(clearances([OLD]).verify(during.text, client)).toBeUndefined();
    expect(clearances([NEW]).verify(before.text, client)).toBeUndefined();
  });

  it("does not accept the id of another key", () => {
    const both = clearances([NEW, OLD]);
    const [, oldId = ""] = issued().text.split(".");
    const [, newId = ""] = issued(both).text.split(".");
    expect(oldId).not.toBe(newId);
    expect(both.verify(issued().text.replace(oldId, newId), client)).toBeUndefined();
  });
});

describe("other spellings", () => {
  const spellings: [string, (text: string) => string][] = [
    ["upper case", (text) => text.toUpperCase()],
    ["an upper-case signature", (text) => text.replace(/[0-9a-f]+$/, (hex) => hex.toUpperCase())],
    ["a leading zero", (text) => text.replace(/\.1/, ".01")],
    ["a plus sign", (text) => text.replace(/\.1/, ".+1")],
    ["a fraction", (text) => text.replace(/\.(\d{13})\./, ".$1.0.")],
    ["an exponent", (text) => text.replace(/\.\d{13}\./, ".1800001800e3.")],
    ["a space before it", (text) => ` ${text}`],
    ["a space after it", (text) => `${text} `],
    ["a line break after it", (text) => `${text}\n`],
    ["quotes", (text) => `"${text}"`],
    ["a percent escape", (text) => text.replace(".", "%2E")],
    ["one more part", (text) => `${text}.`],
    ["one character less", (text) => text.slice(0, -1)],
    ["two characters less", (text) => text.slice(0, -2)],
    ["no signature", (text) => text.replace(/[0-9a-f]+$/, "")],
    ["another version", (text) => text.replace("v2", "v1")],
    ["full-width digits", (text) => text.replace(/\.1/, ".１")],
    ["only another last digit", (text) => `${text.slice(0, -1)}${text.endsWith("0") ? "1" : "0"}`],
    ["twice", (text) => `${text}, ${text}`],
    ["nothing", () => ""],
  ];

  it.each(spellings)("%s is invalid", (_title, change) => {
    const { text } = issued();
    expect(change(text)).not.toBe(text);
    expect(clearances().verify(change(text), client)).toBeUndefined();
  });

  it("every changed character makes it invalid", () => {
    const { text } = issued();
    for (let i = 0; i < text.length; i++) {
      const changed = text.slice(0, i) + String.fromCharCode(text.charCodeAt(i) ^ 1) + text.slice(i + 1);
      expect(clearances().verify(changed, client), `character ${i}`).toBeUndefined();
    }
  });
});

describe("clearanceText", () => {
  const textOf = (headers: Record<string, string>) => clearanceText({ header: (name) => headers[name] });
  const cookie = (value: string) => `__Host-sluice-clearance=${value}`;

  it.each<[string, Record<string, string>, string | undefined]>([
    ["the cookie", { cookie: `a=1; ${cookie("x")}; b=2` }, "x"],
    ["a cookie without spaces", { cookie: `a=1;${cookie("x")}` }, "x"],
    ["the header", { "sluice-clearance": "y" }, "y"],
    ["the header before the cookie", { "sluice-clearance": "y", cookie: cookie("x") }, "y"],
    ["an empty header before the cookie", { "sluice-clearance": "", cookie: cookie("x") }, ""],
    ["two cookies", { cookie: `${cookie("x")}; ${cookie("x")}` }, undefined],
    ["a name that ends like it", { cookie: `my${cookie("x")}` }, undefined],
    ["the name in a value", { cookie: `a=${cookie("x")}` }, undefined],
    ["a cookie without the prefix", { cookie: "sluice-clearance=x" }, undefined],
    ["nothing", {}, undefined],
  ])("reads %s", (_title, headers, expected) => {
    expect(textOf(headers)).toBe(expected);
  });
});
