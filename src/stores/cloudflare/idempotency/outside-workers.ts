/** The `IdempotencyDO` class outside Cloudflare's runtime, for tools and tests that import a Worker. */
import { type IdempotencyDOClass, type IdempotencyObject, idempotencyObject } from "./idempotency-do.ts";

/** The Durable Object class that holds idempotent responses. Only Cloudflare's runtime creates instances of it. */
export const IdempotencyDO: IdempotencyDOClass = /* @__PURE__ */ idempotencyObject(Object);
export type IdempotencyDO = IdempotencyObject;
