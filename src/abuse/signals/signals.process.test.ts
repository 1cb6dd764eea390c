/** Tests the built-in signals. */
import { cloudflareBots, headerSignal, type RequestSignal, userAgentBots } from "sluice/abuse";
import { describe, expect, it, vi } from "vitest";
import { SIGNAL, type SignalRequest } from "../signals.ts";

const isbot = vi.hoisted(() => ({ calls: [] as string[] }));
vi.mock("isbot", async (original) => {
  const actual = await original<typeof import("isbot")>();
  return {
    ...actual,
    isbot(userAgent: string) {
      isbot.calls.push(userAgent);
      return actual.isbot(userAgent);
    },
  };
});

function read(signal: RequestSignal, request: Partial<SignalRequest> & { headers?: Record<string, string> }) {
  const header = (name: string) => request.headers?.[name];
  return signal[SIGNAL]({ extra: undefined, peer: undefined, header, ...request });
}

describe("cloudflareBots", () => {
  const signal = cloudflareBots();
  it.each([
    [{ botManagement: { score: 1, verifiedBot: true } }, "verified"],
    [{ botManagement: { verifiedBot: true } }, "verified"],
    [{ botManagement: { score: 1, verifiedBot: false } }, "likely"],
    [{ botManagement: { score: 29 } }, "likely"],
    [{ botManagement: { score: 30 } }, "unlikely"],
    [{ botManagement: { score: 99 } }, "unlikely"],
  ])("reads %j as %s", (extra, bot) => {
    expect(read(signal, { extra })).toEqual({ bot });
  });

  it.each([
    ...[undefined, null, 0, "", "botManagement", true, [], {}, () => 0, { botManagement: null }, { botManagement: 7 }],
    ...[0, -1, 100, 29.5, Number.NaN, "29", null].map((score) => ({ botManagement: { score } })),
    { botManagement: { verifiedBot: "true" } },
    { botManagement: { verifiedBot: 1, score: 0 } },
  ])("knows nothing from %j", (extra) => {
    expect(read(signal, { extra })).toBeUndefined();
  });
});

describe("the arguments of signals (issue 30)", () => {
  it("move the border between likely and unlikely with likelyBelow", () => {
    const bots = cloudflareBots({ likelyBelow: 50 });
    const header = headerSignal("x-score", { trustedProxies: ["10.0.0.1"], likelyBelow: 50 });
    for (const [score, bot] of [
      [49, "likely"],
      [50, "unlikely"],
    ] as const) {
      expect(read(bots, { extra: { botManagement: { score } } })).toEqual({ bot });
      expect(read(header, { peer: "10.0.0.1", headers: { "x-score": String(score) } })).toEqual({ bot });
    }
  });

  it.each<[string, () => unknown, string]>([
    [
      "cloudflareBots",
      () => cloudflareBots({ likleyBelow: 50 } as never),
      '"likleyBelow" is not an option of cloudflareBots',
    ],
    ["cloudflareBots", () => cloudflareBots({ onEvent() {} } as never), '"onEvent" is not an option of cloudflareBots'],
    ["cloudflareBots", () => cloudflareBots(50 as never), "Expected an object for cloudflareBots, but received 50"],
    ...[1, 100, 29.5, "30"].map(
      (likelyBelow) =>
        [
          `cloudflareBots, likelyBelow ${likelyBelow}`,
          () => cloudflareBots({ likelyBelow } as never),
          "likelyBelow must be a",
        ] as [string, () => unknown, string],
    ),
    [
      "headerSignal",
      () => headerSignal("x", { trustedProxies: ["10.0.0.1"], likelyBelow: 0 }),
      "likelyBelow must be a",
    ],
    [
      "userAgentBots",
      () => (userAgentBots as (options: object) => unknown)({ likelyBelow: 50 }),
      "userAgentBots must be called without options",
    ],
  ])("are refused if they are unknown or wrong: %s", (_, create, message) => {
    expect(create).toThrow(message);
  });
});

describe("userAgentBots", () => {
  const chrome =
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36";
  const of = (signal: RequestSignal, userAgent: string) => read(signal, { headers: { "user-agent": userAgent } })?.bot;

  it("classifies bots and browsers", () => {
    const signal = userAgentBots();
    expect(of(signal, chrome)).toBe("unlikely");
    for (const bot of ["curl/8.5.0", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "x"])
      expect(of(signal, bot)).toBe("likely");
  });

  it("takes a missing or empty header for a bot", () => {
    const signal = userAgentBots();
    expect(read(signal, {})).toEqual({ bot: "likely" });
    for (const userAgent of ["", "  "]) expect(of(signal, userAgent)).toBe("likely");
  });

  it("reads the first 512 characters", () => {
    const signal = userAgentBots();
    const padded = `${chrome} ${"Gecko ".repeat(100)}`;
    expect(of(signal, `${padded.slice(0, 509)}bot`)).toBe("likely");
    expect(of(signal, `${padded.slice(0, 512)} bot`)).toBe("unlikely");
  });

  it("caches 1000 results", () => {
    const signal = userAgentBots();
    const agents = Array.from({ length: 1001 }, (_, i) => `${chrome} Version/${i}`);
    isbot.calls.length = 0;
    for (const agent of [...agents.slice(0, 1000), ...agents.slice(0, 1000)]) of(signal, agent);
    expect(isbot.calls).toHaveLength(1000);
    for (const agent of agents.slice(1000)) of(signal, agent);
    for (const agent of agents.slice(1, 1000)) of(signal, agent);
    expect(isbot.calls).toHaveLength(1001);
    of(signal, agents[0] as string);
    expect(isbot.calls).toHaveLength(1002);
  });
});

describe("headerSignal", () => {
  const signal = headerSignal("X-Bot-Score", { trustedProxies: ["10.0.0.0/8", "2001:db8::/32"] });
  const of = (score: string, peer: string | undefined = "10.0.0.1") =>
    read(signal, { peer, headers: { "x-bot-score": score } })?.bot;

  it.each([
    ["1", "likely"],
    ["29", "likely"],
    ["30", "unlikely"],
    ["99", "unlikely"],
    ...["0", "100", "-1", "", "29.5", "1e1", "0x1", "01", "1,99", "99, 1", " 5", "５", "bot"].map((score) => [
      score,
      undefined,
    ]),
  ])("reads %j as %s", (score, bot) => {
    expect(of(score as string)).toBe(bot);
  });

  it("reads the header of trusted proxies only, in every spelling of their addresses", () => {
    for (const peer of ["10.9.9.9", "::ffff:10.0.0.1", "2001:DB8::1"]) expect(of("99", peer), peer).toBe("unlikely");
    for (const peer of ["11.0.0.1", "::ffff:11.0.0.1", "2001:db9::1", "", "unknown"])
      expect(of("99", peer), peer).toBeUndefined();
    expect(read(signal, { headers: { "x-bot-score": "99" } })).toBeUndefined();
    expect(read(signal, { peer: "10.0.0.1" })).toBeUndefined();
  });

  it.each([
    [undefined, "Expected an object for headerSignal, but received undefined."],
    [{}, 'trustedProxies must be a list of addresses and ranges such as ["10.0.0.0/8"], but received undefined.'],
    [{ trustedProxies: [] }, 'trustedProxies must be a list of addresses and ranges such as ["10.0.0.0/8"]'],
    [{ trustedProxies: 1 }, 'trustedProxies must be a list of addresses and ranges such as ["10.0.0.0/8"]'],
    [{ trustedProxies: ["10.0.0.0/33"] }, "trustedProxies must be IP addresses and ranges such as 10.0.0.0/8"],
    [{ trustedProxies: ["0.0.0.0/0"] }, "trustedProxies must be a range that does not contain every address"],
    [{ trustedProxies: ["loopback"] }, "trustedProxies must be IP addresses and ranges"],
    [{ trustedProxies: ["10.0.0.1"], scale: 1 }, '"scale" is not an option of headerSignal.'],
  ])("rejects the options %j", (options, message) => {
    expect(() => headerSignal("x", options as { trustedProxies: string[] })).toThrow(message);
  });

  it("rejects an invalid header name", () => {
    for (const name of ["", "a b", "a:", undefined])
      expect(() => headerSignal(name as string, { trustedProxies: ["10.0.0.1"] })).toThrow("name must be");
  });
});
