/**
 * The rate limits of an API with 50 endpoints and three plans. The first rule that matches a request applies: its own
 * limits count the request once, and each shared budget counts it `weight` times. A client is a user, or an IP address.
 */
import { defineRules } from "sluice/rules";

/** Creates the rules. */
export const createRules = (/** @type {import("sluice/rules").RulesOptions} */ options) =>
  defineRules(
    {
      plans: ["free", "pro", "enterprise"],
      defaultPlan: "free",
      budgets: {
        address: { ip: "50/s burst 300" },
        api: { tenant: { free: "60/m burst 30", pro: "600/m burst 200", enterprise: "6000/m burst 2000" } },
        monthly: { tenant: { free: "10000/30d fixed", pro: "1000000/30d fixed", enterprise: "unlimited" } },
      },
      // For rules that don't set their own. While Redis is unavailable, each process counts on its own.
      defaults: { budgets: ["address", "api", "monthly"], onStoreError: "local" },
      rules: [
        { name: "health", match: "GET /healthz", unlimited: true },
        // Denials of login and mfa are strikes, which block an IP address after ten. An account with 50 failed logins in an
        // hour, and an IP address with five sign-ups in an hour, end in a challenge.
        { name: "login", match: "POST /v1/sessions", preset: "login" },
        { name: "mfa", match: "POST /v1/sessions/mfa", preset: "mfa" },
        { name: "signup", match: "POST /v1/signup", preset: "signup" },
        { name: "reset", match: "POST /v1/password-resets", preset: "password-reset" },
        {
          name: "redeem",
          match: "POST /v1/password-resets/:token",
          limits: { ip: "10/h log" },
          budgets: ["address"],
          onStoreError: "closed",
        },
        { name: "hooks", match: "POST /v1/hooks/:provider", preset: "webhooks" },
        { name: "search", match: "GET /v1/search", limits: { client: "5/s burst 20" }, weight: 5 },
        {
          name: "report",
          match: "POST /v1/reports",
          limits: {
            client: "2/m burst 4",
            tenant: { free: "10/d fixed", pro: "200/d fixed", enterprise: "5000/d fixed" },
          },
          weight: 20,
        },
        { name: "export", match: "GET /v1/reports/:id/export", limits: { client: "5/m" }, weight: 10 },
        { name: "pay", match: "POST /v1/payments", limits: { client: "10/m burst 5" }, onStoreError: "closed" },
        {
          name: "ai",
          match: ["POST /v1/ai/chat", "POST /v1/ai/embeddings"],
          preset: "ai-tokens",
          budgets: ["address"],
          limits: {
            tenant: {
              free: "20000/d fixed of tokens",
              pro: "2000000/d fixed of tokens",
              enterprise: "50000000/d fixed of tokens",
            },
          },
        },
        { name: "bulk", match: "POST /v1/tasks/bulk", limits: { client: "1000/m of items" }, weight: 10 },
        { name: "upload", match: "POST /v1/files", limits: { client: "30/m burst 10" }, weight: 5 },
        // Its own limit is counted and not enforced yet. Budgets are.
        { name: "share", match: "POST /v1/files/:id/share", limits: { client: "20/h" }, mode: "shadow" },
        {
          name: "list",
          match: [
            "GET /v1/users",
            "GET /v1/teams",
            "GET /v1/projects",
            "GET /v1/projects/:id/tasks",
            "GET /v1/tasks/:id/comments",
            "GET /v1/invoices",
          ],
          limits: { client: "10/s burst 40" },
          perPattern: true,
          weight: 2,
        },
        {
          name: "read",
          match: [
            "GET /v1/me",
            "GET /v1/me/usage",
            "GET /v1/users/:id",
            "GET /v1/teams/:id",
            "GET /v1/projects/:id",
            "GET /v1/tasks/:id",
            "GET /v1/files/:id",
            "GET /v1/reports/:id",
            "GET /v1/invoices/:id",
          ],
          limits: { client: "20/s burst 100" },
        },
        {
          name: "write",
          match: [
            "PATCH /v1/me",
            "POST /v1/users",
            "PATCH /v1/users/:id",
            "POST /v1/teams",
            "PATCH /v1/teams/:id",
            "POST /v1/projects",
            "PATCH /v1/projects/:id",
            "POST /v1/projects/:id/tasks",
            "PATCH /v1/tasks/:id",
            "POST /v1/tasks/:id/comments",
            "POST /v1/search/saved",
            "POST /v1/webhooks",
          ],
          limits: { client: "5/s burst 20" },
          weight: 2,
        },
        {
          name: "remove",
          match: [
            "DELETE /v1/sessions/current",
            "DELETE /v1/users/:id",
            "DELETE /v1/teams/:id",
            "DELETE /v1/projects/:id",
            "DELETE /v1/tasks/:id",
            "DELETE /v1/comments/:id",
            "DELETE /v1/files/:id",
          ],
          limits: { client: "1/s burst 10" },
        },
      ],
      fallback: { limits: { ip: "2/s burst 20" }, budgets: [] },
      overrides: { "tenant:acme": { api: "20000/m burst 5000" } },
    },
    options,
  );
