/** Four names of the ws-kit proposal that sluice does not have. The same code is in docs/websockets/ws-kit.md. */
import { memoryRateLimiter, type Policy } from "sluice";
import { type RedisClient, redisRateLimiter } from "sluice/redis";
import * as wsKit from "sluice/ws-kit";

export const defaultKey = wsKit.keyPerUserPerType;
export const memoryStore = ({ policy }: { policy: Policy }) => memoryRateLimiter(policy);
export const createRedisBackend = ({ client }: { client: RedisClient }) => ({
  createPolicy: (policy: Policy) => redisRateLimiter(client, policy),
});
export const rateLimit = ({ store, ...options }: Omit<wsKit.WsKitOptions, "limiter"> & { store: wsKit.WsKitLimiter }) =>
  wsKit.rateLimit({ ...options, limiter: store });
