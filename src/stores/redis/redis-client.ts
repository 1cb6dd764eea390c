/**
 * Recognises Redis clients by the few methods that are used, and gives them one interface. No client is imported, so new
 * versions work without a release of sluice.
 */
import { optionError } from "../../base/errors.ts";
import { shared } from "../../base/shared-state.ts";

/** A client or cluster of ioredis or iovalkey. */
export interface IoredisLike {
  /** Runs a script by its hash. */
  evalsha(sha: string, numberOfKeys: number, ...keysAndArguments: string[]): Promise<unknown>;
  /** Runs a script by its text. */
  eval(script: string, numberOfKeys: number, ...keysAndArguments: string[]): Promise<unknown>;
  /** State of the connection, such as `"ready"`. */
  readonly status: string;
}

/** A client, cluster or sentinel of node-redis (the package `redis`). */
export interface NodeRedisLike {
  /** Runs a script by its hash. */
  evalSha(sha: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  /** Runs a script by its text. */
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
}

/** A Redis or Valkey client: ioredis, iovalkey or node-redis. */
export type RedisClient = IoredisLike | NodeRedisLike;

/** Whether commands can be sent now, soon, or not at all. */
type Readiness = "ready" | "connecting" | "down";

/** The interface of a client that the store uses. */
export interface Connection {
  /** Whether it is a Redis Cluster, whose keys are spread over slots. */
  readonly isCluster: boolean;
  /** Maximum number of keys in one call, because Redis is blocked while it runs. A sliding log counts as several. */
  readonly maxKeysPerCall: number;
  /** Whether one call may contain jobs of several requests. False where I/O belongs to the request that started it. */
  readonly batchesAcrossRequests: boolean;
  /** The prefix that the client adds to every key. */
  readonly keyPrefix: string;
  /** A problem of the client's configuration that users should fix. */
  readonly warning?: string;
  /** Whether a command sent now would leave at once. */
  readiness(): Readiness;
  /** Runs a script by its SHA-1. */
  evalsha(sha: string, keys: string[], args: string[]): Promise<unknown>;
  /** Runs a script by its text. */
  eval(script: string, keys: string[], args: string[]): Promise<unknown>;
}

/** Small enough that a reply is read while Redis runs the next call. */
const MAX_KEYS_PER_CALL = 32;

/** Returns the connection of a client, or throws if it is not one of the supported clients. */
export function connectionTo(client: RedisClient): Connection {
  return sharedConnection(client, createConnection);
}

/** All stores on one client share its connection: calls on a sentinel have to be spaced, whichever store sends them. */
export function sharedConnection<Client extends object>(
  client: Client,
  create: (client: Client) => Connection,
): Connection {
  let connection = connections.get(client);
  if (!connection) {
    connection = create(client);
    connections.set(client, connection);
  }
  return connection;
}

const connections = /* @__PURE__ */ shared("redisConnections", () => new WeakMap<object, Connection>());

function createConnection(client: RedisClient): Connection {
  if (hasMethod(client, "evalsha") && typeof (client as IoredisLike).status === "string") {
    return ioredisConnection(client as Ioredis);
  }
  if (hasMethod(client, "evalSha")) return nodeRedisConnection(client as NodeRedis);
  const expected = "an ioredis, iovalkey or node-redis client (for @upstash/redis, use sluice/upstash)";
  throw optionError("invalid-option", "client", expected, client);
}

/** Braces in a prefix would decide the cluster slot of every key. */
function checkKeyPrefix(isCluster: boolean, prefix: string): string {
  if (!isCluster || !/[{}]/.test(prefix)) return prefix;
  throw optionError("invalid-option", "keyPrefix", "a string without braces on a cluster", prefix);
}

function hasMethod(client: unknown, method: string): boolean {
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
  /** Of a cluster: the delay in ms before it resends commands of a broken connection; 0 disables that. */
  retryDelayOnFailover?: number;
  redisOptions?: IoredisOptions;
}

function ioredisConnection(client: Ioredis): Connection {
  const isCluster = client.isCluster === true;
  const options: IoredisOptions = { ...(isCluster ? client.options?.redisOptions : undefined), ...client.options };
  const fix =
    options.autoResendUnfulfilledCommands !== false
      ? "autoResendUnfulfilledCommands: false"
      : isCluster && options.retryDelayOnFailover !== 0
        ? "retryDelayOnFailover: 0"
        : undefined;
  return {
    isCluster,
    maxKeysPerCall: MAX_KEYS_PER_CALL,
    batchesAcrossRequests: true,
    keyPrefix: checkKeyPrefix(isCluster, options.keyPrefix ?? ""),
    ...(fix && {
      warning: `ioredis resends commands that were in flight when a connection broke, which may charge them twice. Set ${fix}.`,
    }),
    readiness() {
      const { status } = client;
      if (status === "ready") return "ready";
      // With lazyConnect, ioredis connects on its first command, and none is sent before it is ready.
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
  /** Since version 6. */
  readonly _keyPrefix?: string | Uint8Array;
  /** Only clusters have `slots` and `masters`. */
  readonly slots?: unknown;
  readonly masters?: readonly unknown[];
  sendCommand?(firstKey: string | undefined, isReadonly: boolean, command: string[]): Promise<unknown>;
  /** Only version 4 has it. */
  commandsExecutor?: unknown;
  /** Only sentinels have it. */
  getSentinelNode?: unknown;
}

function nodeRedisConnection(client: NodeRedis): Connection {
  const isCluster = client.slots !== undefined && client.masters !== undefined;
  const isSentinel = hasMethod(client, "getSentinelNode");
  const start = isSentinel ? spacedStarts() : <T>(call: () => Promise<T>) => call();
  // Version 4 reads the key from the wrong argument and picks any node: https://github.com/redis/node-redis/issues/2811
  const needsSendCommand = isCluster && hasMethod(client, "commandsExecutor");
  const sendCommand = (command: string, text: string, keys: string[], args: string[]) =>
    (client as Required<NodeRedis>).sendCommand(keys[0], false, [command, text, `${keys.length}`, ...keys, ...args]);
  return {
    isCluster,
    maxKeysPerCall: MAX_KEYS_PER_CALL,
    batchesAcrossRequests: true,
    keyPrefix: checkKeyPrefix(isCluster, String(client._keyPrefix ?? "")),
    ...(isSentinel && {
      warning:
        "node-redis resends commands that were in flight when the connection to the master broke, which may charge " +
        "them twice. Set maxCommandRediscovers: 0.",
    }),
    readiness() {
      // Up to version 5 a cluster has no isReady: it is ready once it has found its masters.
      const hasMasters = !isCluster || (client.masters as readonly unknown[]).length > 0;
      if (client.isReady ?? ((client.isOpen ?? true) && hasMasters)) return "ready";
      return client.isOpen ? "connecting" : "down";
    },
    evalsha: (sha, keys, args) =>
      needsSendCommand
        ? sendCommand("EVALSHA", sha, keys, args)
        : start(() => client.evalSha(sha, { keys, arguments: args })),
    eval: (script, keys, args) =>
      needsSendCommand
        ? sendCommand("EVAL", script, keys, args)
        : start(() => client.eval(script, { keys, arguments: args })),
  };
}

/**
 * Microtasks between the starts of two calls on a sentinel. A sentinel leases a connection to its first command and
 * shares the lease with commands that start while it is held:
 *
 *     this._self.#masterClientInfo ??= await this._self.#internal.getClientLease();
 *
 * (`_execute` in packages/client/lib/sentinel/index.ts, line 494 of node-redis 6.3.1.) A command that starts during
 * that `await` waits for a lease of its own, which is free once no command is in flight: under load, never. With a
 * free connection the `await` takes one microtask, which suffices for 5.12.1 and 6.3.1; the rest is a margin. Waiting
 * until the first call has settled would not help, because its lease ends with it: calls would not be pipelined.
 */
const LEASE_MICROTASKS = 3;

/** Starts calls one after the other, `LEASE_MICROTASKS` apart, without waiting for their replies. */
function spacedStarts(): <T>(call: () => Promise<T>) => Promise<T> {
  let nextStart = Promise.resolve();
  return (call) => {
    const reply = nextStart.then(call);
    for (let i = 0; i < LEASE_MICROTASKS; i++) nextStart = nextStart.then(() => {});
    return reply;
  };
}
