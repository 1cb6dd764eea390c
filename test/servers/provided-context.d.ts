/** What `inject` can give, for the type checker. */
import "vitest";

declare module "vitest" {
  export interface ProvidedContext {
    /** The port of the redis-server that one-redis.js starts. */
    redisPort: number;
  }
}
