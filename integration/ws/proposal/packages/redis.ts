/** Stands in for `@ws-kit/adapters/redis`. */
export * from "sluice/redis";
