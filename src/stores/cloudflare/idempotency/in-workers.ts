/** The `IdempotencyDO` class in Cloudflare's runtime. */
import { DurableObject } from "cloudflare:workers";
import { type IdempotencyDOClass, type IdempotencyObject, idempotencyObject } from "./idempotency-do.ts";

/** The Durable Object class that holds idempotent responses. Export it from your Worker and list it under `new_sqlite_classes`. */
export const IdempotencyDO: IdempotencyDOClass = /* @__PURE__ */ idempotencyObject(DurableObject);
export type IdempotencyDO = IdempotencyObject;
