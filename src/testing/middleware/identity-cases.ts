/** Whose budget a request spends. */
import { check, checkEqual as same } from "../check.ts";
import { type MiddlewareCase, slow } from "./case.ts";

export const identityCases: readonly MiddlewareCase[] = [
  {
    title: "knows clients by their address, IPv6 by its network, in every spelling",
    routes: { clients: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(2, "clients")) }] }) },
    async drive({ statuses, as, ask, seen }) {
      same(await statuses(3, "/clients", { headers: as("203.0.113.7") }), [200, 200, 429], "one client");
      same(await statuses(1, "/clients", { headers: as("203.0.113.8") }), [200], "another");
      same((await ask("/clients", { headers: as("::ffff:203.0.113.7") })).status, 429, "the first, as IPv6 writes it");
      same((await ask("/clients", { headers: as("::ffff:cb00:7107") })).status, 429, "the first, in hex");
      same((await ask("/clients", { headers: as("2001:db8:1:200::1") })).status, 200, "a host of a network");
      same((await ask("/clients", { headers: as("2001:db8:1:2ff::2") })).status, 200, "another of it");
      same((await ask("/clients", { headers: as("2001:db8:1:21a:1:2:3:4") })).status, 429, "a third of it");
      same((await ask("/clients", { headers: as("2001:db8:1:300::1") })).status, 200, "its neighbour");
      const keys = (await seen("clients")).decisions.map(({ key }) => key);
      check(keys.includes("ip:203.0.113.7") && keys.includes("ip:2001:db8:1:200::/56"), `keys: ${keys}`);
    },
  },
  {
    title: "lets no client choose its bucket by what it writes into headers",
    routes: { choosers: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(3, "choosers")) }] }) },
    async drive({ statuses, as }) {
      const seen: number[] = [];
      for (let i = 0; i < 6; i++) {
        const own = as("203.0.113.40");
        // Proxies add what they saw to the right of what a client sent.
        const typed = [`198.51.100.${i}`, own["X-Forwarded-For"]].filter(Boolean).join(", ");
        const more = {
          "X-Real-IP": `198.51.100.${i}`,
          "Client-IP": `198.51.100.${i}`,
          Forwarded: `for=198.51.100.${i}`,
        };
        seen.push(...(await statuses(1, "/choosers", { headers: { ...more, ...own, "X-Forwarded-For": typed } })));
      }
      same(seen, [200, 200, 200, 429, 429, 429], "one client, whatever it types");
    },
  },
  {
    title: "knows holders of verified API keys by their key, and others by their address",
    routes: {
      holders: ({ limiter, kit: { identity = {} } }) => ({
        guards: [
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
      same(await statuses(3, "/holders", holding("right-1")), [200, 200, 429], "one key");
      same(await statuses(1, "/holders", holding("right-2")), [200], "another key");
      same(await statuses(2, "/holders", holding("wrong-1")), [200, 200], "wrong keys");
      same(await statuses(1, "/holders", holding("wrong-2")), [429], "one more wrong key from the same address");
      const keys = (await seen("holders")).decisions.map(({ key }) => key).join();
      check(!keys.includes("right-") && !keys.includes("wrong-"), `a key is a secret: ${keys}`);
    },
  },
];
