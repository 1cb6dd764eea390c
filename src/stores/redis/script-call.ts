/** Script calls: whether a client can send one now, and which error replies prove that nothing ran. */
import { SluiceError } from "../../base/errors.ts";
import type { Connection } from "./redis-client.ts";

/** How often the state of a connecting client is checked. */
export const POLL_MS = 5;
/** How long calls without a deadline wait for a connecting client. */
export const MAX_CONNECT_WAIT_MS = 5000;

/** A script and its SHA-1, its name in Redis. */
export interface Script {
  readonly script: string;
  readonly sha: string;
}

/**
 * Runs a script that may run twice. Waits for a connecting client, loads a missing script, and tries a server that has
 * become a replica once more: the client may have found the new master by then.
 */
export async function callScript(
  connection: Connection,
  { script, sha }: Script,
  keys: string[],
  args: string[],
): Promise<unknown> {
  await untilReady(connection);
  const run = () =>
    connection.evalsha(sha, keys, args).catch((error: unknown) => {
      if (!isReplyError(error, "NOSCRIPT")) throw error;
      return connection.eval(script, keys, args);
    });
  return run().catch((error: unknown) => {
    if (!isReplyError(error, "READONLY")) throw error;
    return run();
  });
}

async function untilReady(connection: Connection): Promise<void> {
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    const readiness = readinessOf(connection);
    if (readiness === "ready") return;
    if (readiness !== "connecting" || waitedMs >= MAX_CONNECT_WAIT_MS) throw notConnected(readiness);
    // The connecting client decides whether the process stays alive.
    await new Promise<void>((resolve) => unref(setTimeout(resolve, POLL_MS)));
  }
}

/** Lets the process end while a timer is pending. */
export function unref(timer: unknown): void {
  (timer as { unref?(): void }).unref?.();
}

/** Whether a command sent now would leave at once. Text that is neither `ready` nor `connecting` is a reason. */
export function readinessOf(connection: Connection): string {
  try {
    return connection.readiness();
  } catch (error) {
    return String(error);
  }
}

/** The error for a client that is not connected. */
export function notConnected(readiness: string): SluiceError {
  return new SluiceError(
    "store-unavailable",
    "The Redis client is not connected. With node-redis, call await client.connect() first.",
    { option: "client", expected: "a connected client", received: readiness },
  );
}

/** Whether Redis replied an error of this kind. Upstash adds the whole command to its message, which contains user keys. */
export function isReplyError(error: unknown, kind: "READONLY" | "NOSCRIPT"): boolean {
  const message = String((error as Error | undefined)?.message ?? error);
  return message.replace(/^Command (?:\d+ \[ \w+ \] )?failed: /, "").startsWith(kind);
}
