/** The limits of everything that has to do with logging in. The presets: docs/rules-presets.md */
import { defineRules } from "sluice/rules";

/** Creates the rules. */
export const createRules = (/** @type {import("sluice/rules").RulesOptions} */ options) =>
  defineRules(
    {
      rules: [
        { name: "login", match: "POST /login", preset: "login" },
        { name: "mfa", match: "POST /mfa", preset: "mfa" },
        { name: "signup", match: "POST /signup", preset: "signup" },
        { name: "reset", match: "POST /password-resets", preset: "password-reset" },
      ],
      fallback: { preset: "anonymous" },
      // For the demonstration: this account needs a challenge after 3 wrong passwords, not after 50. Don't copy this line.
      overrides: { "account:ada@example.com": { "login.account": "3/h log" } },
    },
    options,
  );
