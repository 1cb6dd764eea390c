/** Ready-made rules for common endpoints, as plain data. */
import type { PresetName, RuleData } from "./rules-data.ts";

/** The presets, as plain data. */
export const presets: Readonly<Record<PresetName, Omit<RuleData, "name" | "match">>> = /* @__PURE__ */ deepFreeze({
  anonymous: { limits: { ip: "5/s burst 50" }, budgets: [], onStoreError: "local" },
  payments: { limits: { client: "10/m burst 5" }, budgets: [], onStoreError: "closed" },
  // The limit per account is wide and ends in a challenge, so that strangers can't lock its owner out.
  login: {
    limits: { ip: "20/15m log", "ip+account": "5/15m log", account: "50/h log" },
    without: { account: "5/15m log" },
    budgets: [],
    // Not by status: many forms answer a wrong password with a redirect, or with 200 and the form.
    refundIf: "reported",
    onStoreError: "closed",
    action: { account: "challenge" },
    penalty: true,
  },
  // Six digits: 20 attempts an hour are a chance of 1 in 50 000.
  mfa: {
    limits: { ip: "20/h log", user: "5/15m log" },
    without: { user: "5/15m log" },
    budgets: [],
    onStoreError: "closed",
    penalty: true,
  },
  // The handler responds the same way whether or not it sends mail.
  "password-reset": {
    limits: { ip: "10/h log", account: "3/h log" },
    without: { account: "3/h log" },
    budgets: [],
    onStoreError: "closed",
    action: { account: "flag" },
  },
  // Offices share IP addresses, and a person can solve the challenge.
  signup: {
    limits: { ip: "5/h log", network: "30/h log" },
    budgets: [],
    refundIf: "failed",
    onStoreError: "closed",
    action: { ip: "challenge" },
  },
  webhooks: { limits: { ip: "50/s burst 500" }, budgets: [], onStoreError: "local" },
  "public-api": { limits: { client: "10/s burst 50" }, onStoreError: "local" },
  search: { limits: { client: "5/s burst 20" }, onStoreError: "local" },
  // 5 minutes outlast nearly every model call.
  "ai-tokens": {
    limits: { client: ["2/s burst 10", "100000/m of tokens"] },
    onStoreError: "local",
    weight: 1,
    hold: "5m",
  },
});

function deepFreeze<T extends object>(value: T): T {
  for (const member of Object.values(value)) if (typeof member === "object") deepFreeze(member as object);
  return Object.freeze(value);
}
