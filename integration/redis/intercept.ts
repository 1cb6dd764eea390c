/** Wraps clients to record or change their script calls. */
import type { Clock } from "sluice";
import type { IoredisLike, NodeRedisLike } from "sluice/redis";
import type { UpstashClient } from "sluice/upstash";
import { fakeClockScript } from "../../test/redis/script-variants.js";

/** One script call, in one form for all clients. */
export interface Call {
  /** Whether the script is sent as its hash or its text. */
  readonly by: "hash" | "text";
  readonly script: string;
  readonly keys: string[];
  readonly args: string[];
}

/** Wraps a client. `change` may replace its script calls. */
export function intercept<Client extends object>(client: Client, change: (call: Call) => Call): Client {
  const overrides: Record<PropertyKey, unknown> = methodsOf(client, change);
  return new Proxy(client, { get: (target, name) => overrides[name] ?? Reflect.get(target, name, target) });
}

/** Runs the script with a fake clock, on keys with a prefix. The hash tags are unchanged. */
export function withFakeTime<Client extends object>(client: Client, clock: Clock, prefix: string): Client {
  return intercept(client, ({ by, keys, args }) => ({
    by,
    script: by === "hash" ? fakeClockScript.sha : fakeClockScript.text,
    keys: keys.map((key) => prefix + key),
    args: [...args, String(clock.now())],
  }));
}

/** Records the script calls of a client. */
export function spyOn<Client extends object>(client: Client): { client: Client; calls: Call[] } {
  const calls: Call[] = [];
  const record = (call: Call) => {
    calls.push(call);
    return call;
  };
  return { client: intercept(client, record), calls };
}

function methodsOf(client: object, change: (call: Call) => Call): Record<string, unknown> {
  if ("evalSha" in client) {
    const redis = client as NodeRedisLike & { sendCommand(...args: unknown[]): Promise<unknown> };
    const changed = (by: Call["by"], script: string, options: { keys: string[]; arguments: string[] }) => {
      const call = change({ by, script, keys: options.keys, args: options.arguments });
      return [call.script, { keys: call.keys, arguments: call.args }] as const;
    };
    return {
      evalSha: (...[sha, options]: Parameters<NodeRedisLike["evalSha"]>) =>
        redis.evalSha(...changed("hash", sha, options)),
      eval: (...[text, options]: Parameters<NodeRedisLike["eval"]>) => redis.eval(...changed("text", text, options)),
      // A cluster of node-redis 4 gets script calls by sendCommand.
      sendCommand(_firstKey: string, isReadonly: boolean, [name, text, count, ...rest]: [string, string, ...string[]]) {
        const options = { keys: rest.slice(0, Number(count)), arguments: rest.slice(Number(count)) };
        const [script, { keys, arguments: args }] = changed(name === "EVALSHA" ? "hash" : "text", text, options);
        return redis.sendCommand(keys[0], isReadonly, [name, script, `${keys.length}`, ...keys, ...args]);
      },
    };
  }
  if ("status" in client) {
    const redis = client as IoredisLike;
    const changed = (by: Call["by"], script: string, count: number, rest: string[]) => {
      const call = change({ by, script, keys: rest.slice(0, count), args: rest.slice(count) });
      return [call.script, call.keys.length, ...call.keys, ...call.args] as const;
    };
    return {
      evalsha: (sha: string, count: number, ...rest: string[]) => redis.evalsha(...changed("hash", sha, count, rest)),
      eval: (text: string, count: number, ...rest: string[]) => redis.eval(...changed("text", text, count, rest)),
    };
  }
  const redis = client as UpstashClient;
  const changed = (call: Call) => {
    const { script, keys, args } = change(call);
    return [script, keys, args] as const;
  };
  return {
    evalsha: (script: string, keys: string[], args: string[]) =>
      redis.evalsha(...changed({ by: "hash", script, keys, args })),
    eval: (script: string, keys: string[], args: string[]) =>
      redis.eval(...changed({ by: "text", script, keys, args })),
  };
}
