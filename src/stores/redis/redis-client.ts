/**
 * The clients that people have, told apart by the few methods used. None of them is imported, so that their next
 * versions fit too.
 */
import { optionError } from "../../core/errors.ts";

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
  /** The most keys of one call, where a sliding log counts as several: Redis serves nobody else while it runs. */
  readonly mostKeys: number;
  /** Whether one call may carry what several turns of the event loop asked. Over REST, a call may belong to a request. */
  readonly sharesTurns: boolean;
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

/** Few enough that one reply is read while Redis makes the next. */
const MAX_KEYS = 32;

/** Recognises a client, or says what was expected. */
export function connectionTo(client: RedisClient): Connection {
  if (has(client, "evalsha") && typeof (client as IoredisLike).status === "string") return ioredis(client as Ioredis);
  if (has(client, "evalSha")) return nodeRedis(client as NodeRedis);
  const expected = "a client of ioredis, iovalkey or redis (for @upstash/redis, see sluice/upstash)";
  throw optionError("invalid-option", "client", expected, client);
}

/** What a client puts before every key must not be what decides its slot. */
function checkPrefix(cluster: boolean, prefix: string): string {
  if (!cluster || !/[{}]/.test(prefix)) return prefix;
  throw optionError("invalid-option", "keyPrefix", "a prefix without braces", prefix);
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
  const resends =
    options.autoResendUnfulfilledCommands !== false
      ? "autoResendUnfulfilledCommands: false"
      : cluster && options.retryDelayOnFailover !== 0
        ? "retryDelayOnFailover: 0"
        : undefined;
  return {
    cluster,
    mostKeys: MAX_KEYS,
    sharesTurns: true,
    keyPrefix: checkPrefix(cluster, options.keyPrefix ?? ""),
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
  /** Since version 6. */
  readonly _keyPrefix?: string | Uint8Array;
  /** Clusters have these. */
  readonly slots?: unknown;
  readonly masters?: readonly unknown[];
  sendCommand?(firstKey: string | undefined, isReadonly: boolean, command: string[]): Promise<unknown>;
  /** Version 4 has this. */
  commandsExecutor?: unknown;
  /** Sentinels have this. */
  getSentinelNode?: unknown;
}

function nodeRedis(client: NodeRedis): Connection {
  const cluster = client.slots !== undefined && client.masters !== undefined;
  const sentinel = has(client, "getSentinelNode");
  const inTurn = sentinel ? oneByOne() : <T>(start: () => Promise<T>) => start();
  // Version 4 looks for the key in the wrong argument and asks any node: https://github.com/redis/node-redis/issues/2811
  const lost = cluster && has(client, "commandsExecutor");
  const run = (command: string, text: string, keys: string[], args: string[]) =>
    (client as Required<NodeRedis>).sendCommand(keys[0], false, [command, text, `${keys.length}`, ...keys, ...args]);
  return {
    cluster,
    mostKeys: MAX_KEYS,
    sharesTurns: true,
    keyPrefix: checkPrefix(cluster, String(client._keyPrefix ?? "")),
    ...(sentinel && {
      warning:
        "node-redis sends again what was under way when a connection to the master broke, which may be charged " +
        "twice; set maxCommandRediscovers: 0",
    }),
    readiness() {
      // Up to version 5 a cluster does not tell whether it is ready: it is when it knows its nodes.
      const known = !cluster || (client.masters as readonly unknown[]).length > 0;
      if (client.isReady ?? ((client.isOpen ?? true) && known)) return "ready";
      return client.isOpen ? "connecting" : "down";
    },
    evalsha: (sha, keys, args) =>
      lost ? run("EVALSHA", sha, keys, args) : inTurn(() => client.evalSha(sha, { keys, arguments: args })),
    eval: (script, keys, args) =>
      lost ? run("EVAL", script, keys, args) : inTurn(() => client.eval(script, { keys, arguments: args })),
  };
}

/**
 * A sentinel lends its connection to the first call, and the calls that come while it is lent share it. One that comes
 * while it is being lent waits until nobody has it, which under load is never.
 */
function oneByOne(): <T>(start: () => Promise<T>) => Promise<T> {
  let lent = Promise.resolve();
  return (start) => {
    const started = lent.then(start);
    lent = lent
      .then(() => {})
      .then(() => {})
      .then(() => {});
    return started;
  };
}
