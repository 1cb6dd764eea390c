/** The few methods of Cloudflare's platform that the stores use. Cloudflare's types are not needed. */

/** A Durable Object namespace, such as the binding `env.RATE_LIMITER`. */
export interface DurableObjectNamespaceLike {
  /** Returns the id of the object with a name. */
  idFromName(name: string): object;
  /** Returns a stub of an object. */
  // `never` accepts namespaces with any type of id.
  get(id: never): object;
}

/** The storage of a Durable Object whose class has SQLite. */
export interface DurableObjectStorageLike {
  readonly sql: { exec(query: string, ...bindings: (string | number)[]): { toArray(): Record<string, unknown>[] } };
  transactionSync<T>(closure: () => T): T;
  getAlarm(): Promise<number | null>;
  setAlarm(time: number): Promise<void>;
  deleteAlarm(): Promise<void>;
  deleteAll(): Promise<void>;
}

/** The first argument of a Durable Object's constructor. */
export interface DurableObjectStateLike {
  /** The storage of the object. */
  readonly storage: DurableObjectStorageLike;
  /** Runs a callback before the object receives other events. */
  blockConcurrencyWhile<T>(callback: () => Promise<T>): Promise<T>;
}

/** A Workers KV namespace, such as the binding `env.KV`. */
export interface KVNamespaceLike {
  /** Reads a value. */
  get(key: string): Promise<string | null>;
  /** Writes a value that expires. */
  put(key: string, value: string, options: { expirationTtl: number }): Promise<void>;
  /** Deletes a value. */
  delete(key: string): Promise<void>;
}

/** A Workers rate limit binding, such as `env.RL`. */
export interface RateLimitBinding {
  /** Counts one request of a key. */
  limit(options: { key: string }): Promise<{ success: boolean }>;
}

/** Keeps a Worker alive until a promise settles: `waitUntil` of `cloudflare:workers` or of a request's context. */
export type WaitUntil = (promise: Promise<unknown>) => void;

/** Whether a value has these methods and is not a service binding, which has every property. */
export function hasMethods(value: unknown, methods: readonly string[]): boolean {
  if (typeof value !== "object" || value === null) return false;
  const members = value as Record<string, unknown>;
  return methods.every((method) => typeof members[method] === "function") && members.noSuchMethod === undefined;
}
