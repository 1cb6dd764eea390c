/** What is used of Cloudflare's platform, told by the methods. No types of it are needed to use the package. */

/** A namespace of Durable Objects: what a binding of one gives, `env.RATE_LIMITER`. */
export interface DurableObjectNamespaceLike {
  idFromName(name: string): object;
  // Whatever the id is, and whatever type the stub has by the class of the object.
  get(id: never): object;
}

/** A stub of an object, as callers hold it. The runtime of old set-ups knows `fetch` alone. */
export interface DurableObjectStubLike {
  fetch(url: string, init: { method: string; body: string }): Promise<Response>;
}

/** The storage of an object whose class has SQLite. */
export interface DurableObjectStorageLike {
  readonly sql: { exec(query: string, ...bindings: (string | number)[]): { toArray(): Record<string, unknown>[] } };
  transactionSync<T>(closure: () => T): T;
  getAlarm(): Promise<number | null>;
  setAlarm(time: number): Promise<void>;
  deleteAlarm(): Promise<void>;
  deleteAll(): Promise<void>;
}

/** What an object's constructor is given. */
export interface DurableObjectStateLike {
  readonly storage: DurableObjectStorageLike;
  blockConcurrencyWhile<T>(callback: () => Promise<T>): Promise<T>;
}

/** A namespace of Workers KV, `env.KV`. */
export interface KVNamespaceLike {
  get(key: string): Promise<string | null>;
  put(key: string, value: string, options: { expirationTtl: number }): Promise<void>;
  delete(key: string): Promise<void>;
}

/** The native rate-limit binding, `env.RL`. */
export interface RateLimitBinding {
  limit(options: { key: string }): Promise<{ success: boolean }>;
}

/** Lets a promise be settled after the response was sent: `waitUntil` of `cloudflare:workers`, or of a request's context. */
export type WaitUntil = (promise: Promise<unknown>) => void;

/** Whether something has these methods, and is no service binding: that answers to every name. */
export function has(thing: unknown, methods: readonly string[]): boolean {
  if (typeof thing !== "object" || thing === null) return false;
  const members = thing as Record<string, unknown>;
  return methods.every((method) => typeof members[method] === "function") && members.noSuchMethod === undefined;
}
