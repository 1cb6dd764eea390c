/** Stands in for `@ws-kit/middleware`. */
export * from "sluice/ws-kit";
