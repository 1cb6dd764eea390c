/** Stands in for `@ws-kit/adapters/cloudflare-do`. */
export * from "sluice/cloudflare";
