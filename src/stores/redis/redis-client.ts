/**
 * The clients that people have, told apart by the few methods used. None of them is imported, so that their next
 * versions fit too.
 */
import { SluiceError } from "../../core/errors.ts";

/** ioredis and iovalkey, and their Cluster. */
export interface IoredisLike {
  evalsha(sha: string, numberOfKeys: number, ...keysAndArguments: string[]): Promise<unknown>;
  eval(script: string, numberOfKeys: number, ...keysAndArguments: string[]): Promise<unknown>;
  /** How the connection stands. */
  readonly status: string;
}

/** node-redis (the package `redis`): a client, a cluster or a sentinel. */
export interface NodeRedisLike {
  evalSha(sha: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
}

/** A client of Redis or Valkey that the store can use. */
export type RedisClient = IoredisLike | NodeRedisLike;

/** Whether commands can be sent: now, soon, or not. */
type Readiness = "ready" | "connecting" | "down";

/** All that the store needs of a client. */
export interface Connection {
  /** Whether keys live in slots. */
  readonly cluster: boolean;
  /** What the client itself puts before every key. */
  readonly keyPrefix: string;
  /** What a user should know about how the client is set up. */
  readonly warning?: string;
  /** Whether a command sent now would go out now. */
  readiness(): Readiness;
  /** Runs a script that the server knows by its hash. */
  evalsha(sha: string, keys: string[], args: string[]): Promise<unknown>;
  /** Runs a script by its text. */
  eval(script: string, keys: string[], args: string[]): Promise<unknown>;
}

/** Recognises a client, or says what was expected. */
export function connectionTo(client: RedisClient): Connection {
  if (has(client, "evalsha") && typeof (client as IoredisLike).status === "string") return ioredis(client as Ioredis);
  if (has(client, "evalSha")) return nodeRedis(client as NodeRedis);
  const expected = "a client of ioredis, iovalkey or redis (for @upstash/redis, see sluice/upstash)";
  throw new SluiceError("invalid-option", "client", expected, client);
}

function has(client: unknown, method: string): boolean {
  return typeof (client as Record<string, unknown> | null | undefined)?.[method] === "function";
}

interface Ioredis extends IoredisLike {
  readonly isCluster?: boolean;
  readonly options?: IoredisOptions;
  connect?(): Promise<unknown>;
}

interface IoredisOptions {
  keyPrefix?: string;
  autoResendUnfulfilledCommands?: boolean;
  /** Of a cluster: how long it waits before it sends again what a broken connection had under way; 0: it does not. */
  retryDelayOnFailover?: number;
  redisOptions?: IoredisOptions;
}

function ioredis(client: Ioredis): Connection {
  const cluster = client.isCluster === true;
  const options: IoredisOptions = { ...(cluster ? client.options?.redisOptions : undefined), ...client.options };
  const { keyPrefix = "" } = options;
  if (cluster && /[{}]/.test(keyPrefix)) {
    // Then the slot would not be the one of the key.
    throw new SluiceError("invalid-option", "keyPrefix", "a prefix without braces", keyPrefix);
  }
  const resends =
    options.autoResendUnfulfilledCommands !== false
      ? "autoResendUnfulfilledCommands: false"
      : cluster && options.retryDelayOnFailover !== 0
        ? "retryDelayOnFailover: 0"
        : undefined;
  return {
    cluster,
    keyPrefix,
    ...(resends && {
      warning: `ioredis sends again what was under way when a connection broke, which may be charged twice; set ${resends}`,
    }),
    readiness() {
      const { status } = client;
      if (status === "ready") return "ready";
      // A lazy client connects with its first command; we send none before it is ready.
      if (status === "wait") client.connect?.().catch(() => {});
      return status === "wait" || status === "connecting" || status === "connect" ? "connecting" : "down";
    },
    evalsha: (sha, keys, args) => client.evalsha(sha, keys.length, ...keys, ...args),
    eval: (script, keys, args) => client.eval(script, keys.length, ...keys, ...args),
  };
}

interface NodeRedis extends NodeRedisLike {
  readonly isOpen?: boolean;
  readonly isReady?: boolean;
  /** Clusters have these two. */
  readonly slots?: unknown;
  readonly masters?: unknown;
}

function nodeRedis(client: NodeRedis): Connection {
  return {
    cluster: client.slots !== undefined && client.masters !== undefined,
    keyPrefix: "",
    readiness() {
      // Version 4 has clusters that tell neither.
      if (client.isReady ?? client.isOpen ?? true) return "ready";
      return client.isOpen ? "connecting" : "down";
    },
    evalsha: (sha, keys, args) => client.evalSha(sha, { keys, arguments: args }),
    eval: (script, keys, args) => client.eval(script, { keys, arguments: args }),
  };
}
