/** Cases about the identity of clients. */
import { check, checkEqual } from "../check.ts";
import { type MiddlewareCase, slow } from "./case.ts";

export const identityCases: readonly MiddlewareCase[] = [
  {
    title: "identifies clients by IP address in every notation, and IPv6 by network",
    routes: { clients: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(2, "clients")) }] }) },
    async drive({ statuses, as, send, seen }) {
      checkEqual(await statuses(3, "/clients", { headers: as("203.0.113.7") }), [200, 200, 429], "one client");
      checkEqual(await statuses(1, "/clients", { headers: as("203.0.113.8") }), [200], "another");
      checkEqual((await send("/clients", { headers: as("::ffff:203.0.113.7") })).status, 429, "the first, IPv4-mapped");
      checkEqual((await send("/clients", { headers: as("::ffff:cb00:7107") })).status, 429, "the first, in hex");
      checkEqual(
        (await send("/clients", { headers: as("2001:db8:1:200::1") })).status,
        200,
        "a host of an IPv6 network",
      );
      checkEqual((await send("/clients", { headers: as("2001:db8:1:2ff::2") })).status, 200, "another host of it");
      checkEqual((await send("/clients", { headers: as("2001:db8:1:21a:1:2:3:4") })).status, 429, "a third host of it");
      checkEqual((await send("/clients", { headers: as("2001:db8:1:300::1") })).status, 200, "a neighbouring network");
      const keys = (await seen("clients")).decisions.map(({ key }) => key);
      check(keys.includes("ip:203.0.113.7") && keys.includes("ip:2001:db8:1:200::/56"), `keys: ${keys}`);
    },
  },
  {
    title: "ignores forwarding headers that a client sends itself",
    routes: { choosers: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(3, "choosers")) }] }) },
    async drive({ statuses, as }) {
      const seen: number[] = [];
      for (let i = 0; i < 6; i++) {
        const own = as("203.0.113.40");
        // Proxies append the address they saw to the value that a client sent.
        const forged = [`198.51.100.${i}`, own["X-Forwarded-For"]].filter(Boolean).join(", ");
        const more = {
          "X-Real-IP": `198.51.100.${i}`,
          "Client-IP": `198.51.100.${i}`,
          Forwarded: `for=198.51.100.${i}`,
        };
        seen.push(...(await statuses(1, "/choosers", { headers: { ...more, ...own, "X-Forwarded-For": forged } })));
      }
      checkEqual(seen, [200, 200, 200, 429, 429, 429], "one client, whatever it sends");
    },
  },
  {
    title: "identifies clients by verified API key, and others by IP address",
    routes: {
      holders: ({ limiter, kit: { identity = {} } }) => ({
        rateLimits: [
          {
            limiter: limiter(slow(2, "holders")),
            identity: {
              ...(typeof identity === "string" ? { preset: identity as "cloudflare" } : identity),
              apiKey: { verify: (key) => key.startsWith("right-") },
            },
          },
        ],
      }),
    },
    async drive({ statuses, as, seen }) {
      const holding = (key: string) => ({ headers: { ...as("203.0.113.20"), "X-API-Key": key } });
      checkEqual(await statuses(3, "/holders", holding("right-1")), [200, 200, 429], "one key");
      checkEqual(await statuses(1, "/holders", holding("right-2")), [200], "another key");
      checkEqual(await statuses(2, "/holders", holding("wrong-1")), [200, 200], "wrong keys");
      checkEqual(await statuses(1, "/holders", holding("wrong-2")), [429], "one more wrong key from the same address");
      const keys = (await seen("holders")).decisions.map(({ key }) => key).join();
      check(!keys.includes("right-") && !keys.includes("wrong-"), `an API key is a secret: ${keys}`);
    },
  },
];
