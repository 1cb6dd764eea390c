/** Options of `rateLimit` with a challenge that the token "solved" solves, on any server. */
import { abuse, challenge } from "sluice/abuse";
import { loadRules } from "sluice/rules";

/** `path` is where solutions are sent. */
export function solving(path?: string) {
  const provider = {
    name: "test",
    siteKey: "site",
    scriptUrl: "https://captcha.example/api.js",
    frameOrigin: "https://captcha.example",
    tokenField: "test-response",
    verify: async (token: string) => ({ ok: token === "solved", codes: [] }),
  };
  const rules = [{ name: "login", match: "/login", limits: { ip: "1/d" }, action: "challenge" }];
  const secret = ["0123456789abcdef0123456789abcdef"] as const;
  return {
    rules: loadRules({ rules, fallback: { limits: { ip: "99/d" } } }, { facts: [] }),
    abuse: abuse({ challenge: challenge({ provider, secret, ...(path === undefined ? {} : { path }) }) }),
  };
}
