/** Stands in for `@ws-kit/adapters/memory`. */
export * from "sluice";
